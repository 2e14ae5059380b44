# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What GPUs did, read from a Chrome trace (torch.profiler's or ptbpf's) or from the agent's own chunks, in one form;
and what two such accounts of the same work have in common. Knows nothing of how they were made. Only Python's own
library: it runs where there is nothing else."""

import collections
import ctypes
import gzip
import json
import re
import statistics
import struct

WORK = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
# bpf/ptb_gpu.h, struct by struct behind its header: (format, names)
RECORDS = {
    48: ("kernel", "<5Q14I8x2IiI", "begin end queued submitted node correlation device context stream name graph gx gy gz bx by bz "
                                   "registers static".split()),
    49: ("memcpy", "<4Q16I", "begin end bytes node correlation device context stream graph copy src dst".split()),
    50: ("memset", "<4Q16I", "begin end bytes node correlation device context stream graph value src dst".split()),
    51: ("api", "<2Q6I", "begin end correlation cbid name result driver".split()),
    52: ("sync", "<2Q8I", "begin end what correlation device context stream event".split()),
    53: ("event", "<Q6I", "at correlation device context stream event".split()),
    54: ("overhead", "<2Q2I", "begin end what".split()),
    55: ("device", "<2Q14I", "memory bandwidth id name major minor sms warp clock threads warps blocks".split()),
    57: ("note", "<Q2I", "value what".split()),
}
GPU_NAME, GPU_CHUNK, AREC_GPU, AREC_GPU_CLOCK = 58, 3, 7, 5
COPY_KINDS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
MEMORY_KINDS = {0: "Unknown", 1: "Pageable", 2: "Pinned", 3: "Device", 4: "Array", 5: "Managed", 6: "Device Static",
                7: "Managed Static"}
Act = collections.namedtuple("Act", "kind name device stream begin end correlation bytes op")
Call = collections.namedtuple("Call", "name tid begin end")


class Acts:
    """work: in order of begin. calls: by correlation id, those of the runtime before those of the driver."""

    def __init__(self):
        self.work, self.calls, self.devices, self.notes, self.flows = [], {}, [], [], {}
        self.clocks, self.problems = 0, []

    def add_call(self, correlation, call, driver):
        if not driver or correlation not in self.calls:
            self.calls[correlation] = call

    def done(self):
        self.work.sort(key=lambda a: (a.begin, a.end))
        return self


# ---- Chrome traces ----

def read_trace(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as f:
        return json.load(f)


def from_trace(path):
    document, acts = read_trace(path), Acts()
    events = document["traceEvents"]
    ops = {e["args"]["External id"]: e["name"] for e in events if e.get("cat") == "cpu_op" and "External id" in e.get("args", {})}
    for e in events:
        args = e.get("args", {})
        if e.get("ph") == "X":
            begin = e["ts"] * 1000
            if e.get("cat") in WORK:
                acts.work.append(Act(WORK[e["cat"]], e["name"], args.get("device"), args.get("stream"), begin, begin + e["dur"] * 1000,
                                     args.get("correlation", 0), args.get("bytes", 0), ops.get(args.get("External id"))))
            elif e.get("cat") in ("cuda_runtime", "cuda_driver"):
                acts.add_call(args.get("correlation", 0), Call(e["name"], e["tid"], begin, begin + e["dur"] * 1000),
                              e["cat"] == "cuda_driver")
        elif e.get("cat") == "ac2g":
            acts.flows.setdefault(e["id"], []).append(e["ph"])
    acts.devices = document.get("deviceProperties", [])
    acts.document = document
    return acts.done()


# ---- the agent's chunks, as agent_dump.c writes them ----

def chunks_of(raw):
    """(kind, stream, seq, dropped, payload); raises ValueError where the bytes are no chunks."""
    at = 0
    while at < len(raw):
        if at + 40 > len(raw):
            raise ValueError(f"{len(raw) - at} bytes at the end are no chunk")
        magic, _, kind, length, _, stream, seq, dropped = struct.unpack_from("<I2H4IQ", raw, at)
        if magic != 0x43425450 or length < 40 or at + length > len(raw):
            raise ValueError(f"no chunk at {at}: magic {magic:#x}, length {length}")
        yield kind, stream, seq, dropped, raw[at + 40:at + length]
        at += length


def records_of(payload):
    at = 0
    while at + 16 <= len(payload):
        length, kind, _, aux, ticks = struct.unpack_from("<H2BIQ", payload, at)
        if length < 16 or length % 8 or at + length > len(payload):
            raise ValueError(f"no record at {at} of a chunk: length {length}")
        yield kind, aux, ticks, payload[at + 16:at + length]
        at += length


def demangler():
    try:
        lib = ctypes.CDLL("libstdc++.so.6")
        fn, free = lib.__cxa_demangle, ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return lambda name: name
    fn.restype, fn.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    free.argtypes = [ctypes.c_void_p]

    def demangle(name):
        status = ctypes.c_int()
        out = fn(name.encode(), None, None, ctypes.byref(status)) if name.startswith("_Z") else None
        if not out:
            return name
        text = ctypes.string_at(out).decode(errors="replace")
        free(out)
        return text

    return demangle


def gpu_record(acts, names, demangle, kind, tid, body):
    what, form, fields = RECORDS[kind]
    need = struct.calcsize(form)
    r = dict(zip(fields, struct.unpack(form, body[:need].ljust(need, b"\0"))))
    name = names.get(r.get("name"), "")
    if what == "kernel":
        acts.work.append(Act("kernel", demangle(name), r["device"], r["stream"], r["begin"], r["end"], r["correlation"], 0, None))
    elif what in ("memcpy", "memset"):
        text = f"Memset ({MEMORY_KINDS.get(r['dst'], r['dst'])})" if what == "memset" else \
            f"Memcpy {COPY_KINDS.get(r['copy'], r['copy'])} ({MEMORY_KINDS.get(r['src'])} -> {MEMORY_KINDS.get(r['dst'])})"
        acts.work.append(Act(what, text, r["device"], r["stream"], r["begin"], r["end"], r["correlation"], r["bytes"], None))
    elif what == "api":
        acts.add_call(r["correlation"], Call(re.sub(r"_v\d{4,}$", "", name), tid, r["begin"], r["end"]), r["driver"])
    elif what == "device":
        acts.devices.append(dict(r, name=name))
    elif what == "note":
        acts.notes.append((r["what"], r["value"]))


def from_chunks(path):
    with open(path, "rb") as f:
        raw = f.read()
    acts, names, seqs, lost = Acts(), {}, {}, 0
    todo, demangle = [], demangler()
    for kind, stream, seq, dropped, payload in chunks_of(raw):
        if seq != seqs.get(stream, 0) + 1 and stream in seqs:
            lost += 1
        seqs[stream] = seq
        if dropped:
            acts.problems.append(f"stream {stream} dropped {dropped} records")
        for rec, aux, ticks, body in records_of(payload):
            acts.clocks += rec == AREC_GPU_CLOCK
            if kind != GPU_CHUNK or rec != AREC_GPU:
                continue
            if aux == GPU_NAME:
                ident, length = struct.unpack_from("<2I", body)
                names[ident] = body[8:8 + length].decode(errors="replace")
            elif aux in RECORDS:
                todo.append((aux, ticks, body))
    for aux, ticks, body in todo:
        gpu_record(acts, names, demangle, aux, ticks, body)
    if lost:
        acts.problems.append(f"{lost} chunks are missing")
    return acts.done()


# ---- two accounts of the same work ----

def short(counter, limit=4):
    return "; ".join(f"{n} x {str(k)[:70]}" for k, n in counter.most_common(limit)) or "none"


def differences(want, got, key):
    a, b = collections.Counter(map(key, want)), collections.Counter(map(key, got))
    if a == b:
        return None
    return f"only torch: {short(a - b)}; only ptbpf: {short(b - a)}"


def same_counts(want, got, kind):
    a, b = ([w for w in acts.work if w.kind == kind] for acts in (want, got))
    return f"{len(a)}", differences(a, b, lambda w: (w.name, w.bytes)) or ("nothing of that kind" if not a else None)


def by_stream(acts):
    """Names in order, by stream; streams are told apart by what they ran."""
    streams = {}
    for w in acts.work:
        streams.setdefault((w.device, w.stream), []).append(w.name)
    return sorted(streams.values())


def same_order(want, got):
    a, b = by_stream(want), by_stream(got)
    odd = next((f"position {k} of a stream: torch {x[:60]}, ptbpf {y[:60]}" for p, q in zip(a, b) for k, (x, y) in enumerate(zip(p, q))
                if x != y), None)
    if not odd and [len(x) for x in a] != [len(x) for x in b]:
        odd = f"work per stream: torch {[len(x) for x in a]}, ptbpf {[len(x) for x in b]}"
    return f"{len(a)} streams", odd


def durations(want, got):
    """The middle of the ratios of the medians, kernel by kernel: two runs are never the same to the nanosecond."""
    sides = []
    for acts in (want, got):
        found = collections.defaultdict(list)
        for w in acts.work:
            found[w.kind, w.name, w.bytes].append(w.end - w.begin)
        sides.append({k: statistics.median(v) for k, v in found.items()})
    ratios = sorted(sides[1][k] / v for k, v in sides[0].items() if v > 0 and k in sides[1])
    if not ratios:
        return "-", "nothing to compare"
    middle = statistics.median(ratios)
    return f"ptbpf / torch {middle:.3f} ({ratios[0]:.2f} to {ratios[-1]:.2f})", None if 0.8 < middle < 1.25 else "durations differ"


def linked(want, got):
    """Every work has the call that launched it, on both sides the same kind of call."""
    lonely = [w for w in got.work if w.correlation not in got.calls]
    if lonely:
        return f"{len(lonely)} of {len(got.work)}", f"without a call: {short(collections.Counter(w.name for w in lonely))}"
    pairs = differences(*([(w.name, call_name(acts, w)) for w in acts.work] for acts in (want, got)), lambda pair: pair)
    early = [w for w in got.work if w.begin < got.calls[w.correlation].begin]
    return f"{len(got.work)} linked, {len(early)} before their call", pairs or (f"{len(early)} began before their call" if early else None)


def call_name(acts, w):
    call = acts.calls.get(w.correlation)
    return call.name if call else None


def same_ops(want, got):
    """The operator that each work belongs to."""
    a, b = ([w for w in acts.work if w.kind == "kernel"] for acts in (want, got))
    return f"{sum(w.op is not None for w in b)} of {len(b)} kernels", differences(a, b, lambda w: (w.name, w.op))


def whole_flows(got):
    half = [k for k, ends in got.flows.items() if ends.count("s") != 1 or "f" not in ends]
    return f"{len(got.flows)}", f"{len(half)} arrows have no two ends" if half else (None if got.flows else "no arrows")
