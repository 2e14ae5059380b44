# Writes the file IN as a C string literal, a line at a time, to OUT, and to HASH, also as such, what a
# Content-Security-Policy calls it by: its SHA-256 in base64.
file(READ "${IN}" text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n\"" text "${text}")
file(WRITE "${OUT}" "\"${text}\"\n")

file(SHA256 "${IN}" hex)
set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
foreach(at RANGE 0 60 6) # three bytes are four digits; of the last three one is missing
  string(SUBSTRING "${hex}00" ${at} 6 bytes)
  foreach(shift 18 12 6 0)
    math(EXPR digit "(0x${bytes} >> ${shift}) & 63")
    string(SUBSTRING "${digits}" ${digit} 1 digit)
    string(APPEND base64 "${digit}")
  endforeach()
endforeach()
string(SUBSTRING "${base64}" 0 43 base64)
file(WRITE "${HASH}" "\"sha256-${base64}=\"\n")
