unit_test(jsonw ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_jsonw.c ptbpf_base PkgConfig::CJSON)
unit_test(hashmap ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_hashmap.c ptbpf_base)
unit_test(strtab ${CMAKE_CURRENT_SOURCE_DIR}/unit/test_strtab.c ptbpf_base)
