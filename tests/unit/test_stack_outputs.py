# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What report and export make of Python stacks: a made-up capture (fake_stacks_capture.c) whose sums are known."""

import json
import os
import re
import subprocess

import pytest

from support import PTBPF, ROOT, check

MAKER = os.path.join(os.path.dirname(os.path.abspath(PTBPF)), "tests", "fake_stacks_capture")
MODULE, STEP = "train.py(1):_<module>", "train.py(10):_step"
LINEAR = f"{MODULE};{STEP};torch/nn/modules/linear.py(130):_forward"
FIB = "lib/fib.py(4):_<lambda>"
PROGRAM = "/home/me/"


def run(*words, expect=0):
    done = subprocess.run([PTBPF, *words], capture_output=True)
    check(done.returncode == expect, f"{words} ended with {done.returncode}: {done.stderr.decode()}")
    return done.stdout.decode() if expect == 0 else done.stderr.decode()


@pytest.fixture(name="captures")
def make_captures(ws):
    first, second = os.path.join(ws, "a.ptb"), os.path.join(ws, "b.ptb")
    subprocess.run([MAKER, first], check=True)
    subprocess.run([MAKER, second, "more"], check=True)
    return first, second


def export(capture, form, *words, expect=0):
    path = capture + "." + form
    run("export", capture, "--format", form, "-o", path, *words, expect=expect)
    with open(path, encoding="utf-8") as f:
        return f.read()


def test_stacks_of_torch(captures):
    """A line per event in order of begin, the one that its parent swallows left out; its backward operators have the stack
    of the forward one, and not its engine's function; a name's blanks and semicolons are '_'."""
    lines = export(captures[0], "stacks").splitlines()
    want = [f"{LINEAR} 400", f"{LINEAR} 580", f"{LINEAR} 20", f"{MODULE};{STEP} 300", f"{MODULE};{STEP} 400",
            f"{MODULE};{FIB};{FIB};{FIB} 200", f"{MODULE};{STEP} 50", f"{LINEAR} 100", f"{LINEAR} 200",
            f"{MODULE};ä.py(1):_a_b_c_d_</script><b> 70", f"{STEP} 80", f"{MODULE};{STEP} 500"]
    check(lines == want, "\n".join(lines))
    check(not export(captures[0], "stacks", "--metric", "self_cuda_time_total"), "GPU time without a GPU")


def test_stacks_of_memory(captures):
    for metric, value in (("cpu_memory_allocated", (1 << 20) + (1 << 16)), ("cpu_memory_live", 1 << 20), ("page_faults", 3),
                          ("page_fault_bytes", 3 * 4096)):
        check(export(captures[0], "stacks", "--metric", metric) == f"{LINEAR} {value}\n", metric)


def rows(text):
    return {(r["file"], r["line"]): r for r in json.loads(text)["lines"]}


def test_schemas(captures):
    """The validator's rules, and the schemas where this Python has jsonschema."""
    for words in (("--by", "line"), ("--by", "line", "--all-lines"), ("--group-by-stack-n", "3"), ("--memory",)):
        path = captures[0] + ".json"
        with open(path, "w", encoding="utf-8") as f:
            f.write(run("report", captures[0], "--row-limit", "-1", "--json", *words))
        done = subprocess.run(["python3", os.path.join(ROOT, "tools", "validate_trace.py"), path], capture_output=True, text=True)
        check(done.returncode == 0, f"{words}: {done.stdout}{done.stderr}")


def us(row, metric="cpu_time"):
    return row["self"][metric] / 1000, row["total"][metric] / 1000


def test_lines(captures):
    """Libraries' lines count as the line that calls them; a line that is in a stack several times counts once."""
    own = rows(run("report", captures[0], "--by", "line", "--json"))
    check(set(own) == {("train.py", 12), ("train.py", 13), ("train.py", 30), ("lib/fib.py", 5), ("ä.py", 2), ("", 0)}, str(set(own)))
    check(us(own["train.py", 12]) == (1300, 1300), "forward and backward of linear")
    check(us(own["train.py", 13]) == (830, 830), "relu, mm under backward(), mm of a cut stack")
    check(us(own["train.py", 30]) == (0, 2320), "all but the cut stack and those without Python")
    check(us(own["lib/fib.py", 5]) == (200, 200), "recursion")
    check(us(own["", 0]) == (140, 140), "no Python")
    line = own["train.py", 12]
    check((line["self"]["calls"], own["train.py", 13]["self"]["calls"]) == (2, 4), "linear and its backward node; two relu, two mm")
    check((line["self"]["cpu_memory_allocated"], line["self"]["cpu_memory_live"]) == ((1 << 20) + (1 << 16), 1 << 20), "memory")
    check(line["self"]["page_faults"] == 3 == own["train.py", 30]["total"]["page_faults"], "page faults")
    every = rows(run("report", captures[0], "--by", "line", "--all-lines", "--json"))
    check(us(every["train.py", 12]) == (0, 1300) and us(every["torch/nn/modules/linear.py", 134]) == (1300, 1300), "innermost frames")
    check(every["torch/nn/modules/linear.py", 134]["library"] and not every["train.py", 12]["library"], "library")


def test_lines_for_people(captures):
    text = run("report", captures[0], "--by", "line", "--row-limit", "2")
    check(re.search(r"^ +1\.300 ms +51\.2 % +1\.300 ms +51\.2 % .* train\.py:12 in Trainer\.step$", text, re.M), text)
    check("4 more (--row-limit)" in text and "GPU" not in text, text)
    first = run("report", captures[0], "--by", "line", "--sort-by", "cpu_time_total").split(" line\n", 1)[1].splitlines()[0]
    check("train.py:30 in <module>" in first, first)


def test_table(captures):
    doc = json.loads(run("report", captures[0], "--group-by-stack-n", "2", "--row-limit", "-1", "--json"))
    mm = sorted((r["self_cpu_ns"] // 1000, r["stack"]) for r in doc["rows"] if r["key"] == "aten::mm")
    plain = [s.replace("_", " ", 1) for s in (FIB, MODULE, STEP, LINEAR.split(";")[2])]
    check(mm == [(50, [plain[2], plain[1]]), (70, ["ä.py(1): a b;c\td </script><b>", plain[1]]), (80, [plain[2]]), (90, []),
                 (200, [plain[3], plain[2]])], str(mm))
    text = run("report", captures[0], "--group-by-stack-n", "2", "--row-limit", "1").splitlines()
    check(text[1].rstrip().endswith("Source Location") and text[3].rstrip().endswith("  " + plain[2]) and
          text[4].strip() == plain[1] and not text[5].strip(), "\n".join(text))
    check(len({len(line) for line in text[:6]}) == 1, "the columns do not line up")


def test_memory_report(captures):
    text = run("report", captures[0], "--memory")
    check(text.count("aten::linear > aten::empty at train.py:12") == 2, text)
    doc = json.loads(run("report", captures[0], "--memory", "--json"))
    check('"line": "train.py:12"' in json.dumps(doc), "the line is not in the JSON")


def page_data(page):
    """Numbers of a page by the names on the way: {path: [of each capture]}."""
    data = json.loads(re.search(r"^const data = (.*);$", page, re.M)[1])
    metrics = [m["name"] for m in data["metrics"]]
    names = []
    for i, parent in enumerate(data["parent"]):
        kind, name, file, line = data["frames"][data["frame"][i]]
        label = data["strings"][name] + (f" {data['strings'][file]}:{line}" if kind < 2 else "")
        names.append((names[parent] + (label,)) if i else ())
    return {(path, metric): [own[m][i] for own in data["self"]] for m, metric in enumerate(metrics)
            for i, path in enumerate(names) if any(own[m][i] for own in data["self"])}


def test_flamegraph(captures):
    page = export(captures[0], "flamegraph")
    check(page.count("</script>") == 1 and "http:" not in page and "https:" not in page and "{{" not in page, "a name is markup, or the page loads something")
    data = page_data(page)
    top, step, relu = "<module> train.py:30", "Trainer.step train.py:12", "Trainer.step train.py:13"
    forward = (top, step, "Linear.forward torch/nn/modules/linear.py:134")
    linear = forward + ("aten::linear",)
    check(data[linear, "CPU time"] == [400000], "operators lie in one another")
    check(data[linear + ("aten::addmm", "aten::empty"), "CPU memory allocated"] == [(1 << 20) + (1 << 16)], "memory")
    check(data[linear + ("aten::addmm", "aten::empty"), "CPU memory never freed"] == [1 << 20], "memory that stays")
    check(data[forward + ("AddmmBackward0", "aten::mm"), "CPU time"] == [200000], "backward operators are below the forward line")
    check(data[("(outer frames missing)", relu, "aten::mm"), "CPU time"] == [80000], "a cut stack")
    check(data[("(no Python frames)", "aten::mm"), "CPU time"] == [90000], "no stack")
    check(sum(v[0] for (_, metric), v in data.items() if metric == "CPU time") == 3040000, "the sum")


def test_gpu(ws):
    """Without stacks the page has the operators: all GPU time is in it, once."""
    capture = os.path.join(ws, "gpu.ptb")
    subprocess.run([MAKER.replace("stacks", "gpu"), capture], check=True)
    gpu = {path: values[0] for (path, metric), values in page_data(export(capture, "flamegraph")).items() if metric == "GPU time"}
    table = json.loads(run("report", capture, "--json", "--row-limit", "-1"))["rows"]
    work = sum(r["self_device_ns"] for r in table if r["category"] in ("kernel", "gpu_memcpy", "gpu_memset"))
    check(sum(gpu.values()) == work > 0, f"{sum(gpu.values())} ns in the page, {work} in the table")
    done = subprocess.run([PTBPF, "report", capture, "--by", "line"], capture_output=True, text=True)
    check(done.returncode == 1 and "recorded without --with-stack" in done.stderr, done.stderr)


def test_difference(captures):
    data = page_data(export(captures[0], "flamegraph", "--diff", captures[1]))
    top = "<module> train.py:30"
    check(data[(top, "Trainer.step train.py:13", "aten::relu"), "CPU time"] == [700000, 1200000], "an operator that takes longer")
    addmm = (top, "Trainer.step train.py:12", "Linear.forward torch/nn/modules/linear.py:134", "aten::addmm")
    check(data[addmm, "CPU time"] == [0, 500000], "a new operator")
    operators = "Times are those of operators and annotations"
    same = export(captures[0], "flamegraph", "--diff", captures[1])
    check(same.count(operators) == 1 and "samples of all threads" not in same, "both are of operators")
    sampled = captures[0] + ".samples"
    subprocess.run([MAKER, sampled, "samples"], check=True)
    for first, second in ((captures[0], sampled), (sampled, captures[0])):
        page = export(first, "flamegraph", "--diff", second, expect=3 if first == sampled else 0)
        check(f"a.ptb: {operators}" in page and "a.ptb.samples: Times are those of samples of all threads, 100 a second" in page,
              "which times are whose")


def test_refused(captures):
    for words, why in ((("export", "--format", "stacks", "--diff", "x"), "--diff is for --format flamegraph"),
                       (("export", "--format", "flamegraph", "--metric", "page_faults"), "--metric is for --format stacks"),
                       (("report", "--by", "line", "--memory"), "exclude each other"),
                       (("report", "--by", "line", "--sort-by", "flops"), "cannot be sorted by flops"),
                       (("report", "--all-lines"), "--all-lines is for --by line"),
                       (("report", "--group-by-stack-n", "-1"), "number of frames"),
                       (("report", "--memory", "--group-by-stack-n", "1"), "table of operators"),
                       (("export",), "--format or --output is required"),
                       (("export", "-o", "x.json"), "'x.json' has the suffix of no format")):
        check(why in run(*words, captures[0], expect=2), f"{words}: not {why}")
    text = run("export", captures[0], "--format", "flamegraph", "--diff", captures[0] + "x", expect=1)
    check("a.ptbx" in text and not os.path.exists(captures[0][:-4] + ".flamegraph.html"), "a second capture that is not there")


def test_suffix(captures):
    """The suffix of a file says its format, with and without .gz."""
    for name, begin in (("a.stacks.txt", b"<module>"), ("a.flamegraph.html", b"<!DOCTYPE html>"), ("a.trace.json", b"{"), ("a.pt.trace.json.gz", b"\x1f\x8b")):
        path = os.path.join(os.path.dirname(captures[0]), name)
        run("export", captures[0], "-o", path)
        with open(path, "rb") as f:
            check(begin in f.read(200), f"{name} is of another format")


def test_threads(ws):
    """Of each thread the last stack that could be read, its states, and the operator; names cannot steer a terminal."""
    program = "process 1: python3 train.py\n\n"
    for kind, code, want in (("samples", 3, program +
                              "thread 1: running 67 %, waiting for a CPU 17 %, blocked 17 %; in operator at::_ops::mm, called by at::_ops::linear\n"
                              "    Linear.forward (torch/nn/modules/linear.py:134)\n    Trainer.step (train.py:12)\n    <module> (train.py:30)\n"
                              "  C++:\n    poll (libc.so.6)\n    at::_ops::mm::redispatch (libtorch_cpu.so)\n    at::_ops::mm::call (libtorch_cpu.so)\n"
                              "    at::_ops::linear::call (libtorch_cpu.so)\n    ?[31m?<b>+0x12\n    ...\n\n"
                              "thread 2: blocked 100 %\n    a b;c?d?</script><b> (ä.py:2)\n    <module> (train.py:30)\n"
                              "  C++: (the stack could not be read)\n"),
                             ("operators", 0, program[:-1] + 'C++ stacks could not be read: "Operation not permitted"\n\n'
                              "thread 1: running 60 %, blocked 40 %; in operator aten::mm\n    Trainer.step (train.py:13)\n    <module> (train.py:30)\n\n"
                              "thread 2: blocked 100 %\n    (no Python function)\n")):
        capture = os.path.join(ws, kind + ".ptb")
        subprocess.run([MAKER, capture, kind], check=True)
        done = subprocess.run([PTBPF, "export", capture, "--format", "threads", "-o", "/dev/stdout"], capture_output=True, text=True)
        check(done.returncode == code and done.stdout == want, done.stdout + done.stderr)
    plain = os.path.join(ws, "plain.ptb")
    subprocess.run([MAKER, plain], check=True)
    check("contains no samples" in run("export", plain, "--format", "threads", "-o", ws + "/x", expect=1), "no sentence")
    check(not os.path.exists(ws + "/x"), "a file without threads")


def test_samples(ws):
    """Samples of threads in all outputs: sums of what they stand for, by whether the thread ran."""
    capture = os.path.join(ws, "s.ptb")
    subprocess.run([MAKER, capture, "samples"], check=True)

    def out(*words):
        done = subprocess.run([PTBPF, *words], capture_output=True, text=True)
        check(done.returncode == 3, f"{words} ended with {done.returncode}: {done.stderr}")  # a stack is not defined
        return done.stdout

    for metric, want in (("sampled_cpu_time", [f"{LINEAR} 20000", f"{MODULE};{STEP} 10000"]),
                         ("sampled_wait_time", [f"{MODULE};{STEP} 10000", f"{MODULE};ä.py(1):_a_b_c_d_</script><b> 30000"])):
        out("export", capture, "--format", "stacks", "--metric", metric, "-o", capture + ".txt")
        with open(capture + ".txt", encoding="utf-8") as f:
            got = f.read().splitlines()
        check(got == want, f"{metric}: {got}")
    report = json.loads(out("report", capture, "--json", "--all-lines", "--by", "line"))
    got = {(r["function"], r["line"]): (r["self"]["sampled_cpu_time"] // 10**6, r["self"]["sampled_wait_time"] // 10**6) for r in report["lines"]}
    want = {("Linear.forward", 134): (20, 0), ("Trainer.step", 13): (10, 10), ("a b;c\td\n</script><b>", 2): (0, 30), ("", 0): (10, 20),
            ("Trainer.step", 12): (0, 0), ("<module>", 30): (0, 0)}
    check(got == want, f"{got}")
    check(report["totals"]["samples"] == 8 and report["totals"]["samples_running"] == 4 and report["totals"]["samples_unread"] == 1, f"{report['totals']}")
    check(report["totals"]["stacks_unknown"] == 1, f"{report['totals']}")
    text = out("report", capture)
    check("40.000 ms on CPUs, 60.000 ms not running" in text and "in operators" not in text, text)
    out("export", capture, "--format", "chrome", "-o", capture + ".json")
    with open(capture + ".json", encoding="utf-8") as f:
        doc = json.load(f)
    events = [e for e in doc["traceEvents"] if e.get("cat") == "python_sample"]
    states = [(e["tid"], e["name"].split(": ")[-1].split(" ")[0], e["args"]["ptbpf.state"], e["args"]["ptbpf.stands_for_us"]) for e in events]
    check(states == [(1, "forward", "running", 10000), (2, "(no", "blocked", 10000), (1, "step", "running", 10000), (1, "step", "waiting for a CPU", 10000),
                     (1, "forward", "running", 10000), (2, "a", "blocked", 30000), (1, "(stack", "blocked", 10000), (1, "(stack", "running", 10000)], f"{states}")
    out("export", capture, "--format", "flamegraph", "-o", capture + ".html")
    with open(capture + ".html", encoding="utf-8") as f:
        page = f.read()
    check('"sampled time on a CPU"' in page and '"sampled time not running"' in page and '"CPU time"' not in page, "figures")
    check("100 a second" in page, "its note")


def test_open_operators(ws):
    """Samples that say which operator was open, in all outputs."""
    capture = os.path.join(ws, "o.ptb")
    subprocess.run([MAKER, capture, "operators"], check=True)

    def out(*words, expect=0):
        done = subprocess.run([PTBPF, *words], capture_output=True, text=True)
        check(done.returncode == expect, f"{words} ended with {done.returncode}: {done.stderr}")
        return done.stdout + (done.stderr if expect else "")

    engine = "autograd::engine::evaluate_function: A.b"
    report = json.loads(out("report", capture, "--json", "--by", "operator"))
    got = {r["operator"]: (r["self"]["sampled_cpu_time"] // 10**6, r["self"]["sampled_wait_time"] // 10**6) for r in report["operators"]}
    check(got == {"aten::mm": (20, 20), engine: (0, 30), "(none)": (10, 0), "(not known)": (0, 20)}, f"{got}")
    check(report["totals"]["samples_operator_known"] == 5, f"{report['totals']}")
    text = out("report", capture, "--by", "operator", "--row-limit", "1").splitlines()
    check(any(line.split()[-1:] == ["aten::mm"] for line in text) and not any(line.endswith("(none)") for line in text), f"{text}")
    check("total" not in text[3], f"{text}")
    for metric, want in (("sampled_cpu_time", [f"{LINEAR};aten::mm 20000", f"{LINEAR} 10000"]), ("sampled_wait_time", [f"{MODULE};{STEP};aten::mm 20000"])):
        out("export", capture, "--format", "stacks", "--metric", metric, "-o", capture + ".txt")
        with open(capture + ".txt", encoding="utf-8") as f:
            got = f.read().splitlines()
        check(sorted(got) == sorted(want), f"{metric}: {got}")
    lines = json.loads(out("report", capture, "--json", "--by", "line", "--all-lines"))["lines"]
    got = {(r["function"], r["line"]): r["self"]["sampled_cpu_time"] // 10**6 for r in lines}
    check(got["Linear.forward", 134] == 30, f"{got}")
    out("export", capture, "--format", "chrome", "-o", capture + ".json")
    with open(capture + ".json", encoding="utf-8") as f:
        got = [e["args"].get("ptbpf.operator") for e in json.load(f)["traceEvents"] if e.get("cat") == "python_sample"]
    check(got == ["aten::mm", "aten::mm", "(none)", "aten::mm", engine, None, None], f"{got}")
    out("export", capture, "--format", "flamegraph", "-o", capture + ".html")
    with open(capture + ".html", encoding="utf-8") as f:
        check("aten::mm" in f.read(), "no operator in the flame graph")
    plain = os.path.join(ws, "p.ptb")
    subprocess.run([MAKER, plain], check=True)
    check("has no samples" in out("report", plain, "--by", "operator", expect=1), "no sentence")
