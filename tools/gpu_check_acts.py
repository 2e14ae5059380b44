# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""GPU activities, read from a Chrome trace (torch.profiler's or ptbpf's) or from the agent's own chunks, in one form; and
comparisons of two such lists of the same work. Uses only Python's standard library, for machines without anything else."""

import collections
import ctypes
import gzip
import json
import statistics
import struct

WORK = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
# Records of CUPTI (user/cupti/cupti_layout.h) by kind: (what, {field: (offset, format)})
MEMORY = {"bytes": (8, "Q"), "begin": (16, "Q"), "end": (24, "Q"), "device": (32, "I"), "stream": (40, "I")}
COPY = dict(MEMORY, copy=(4, "B"), src=(5, "B"), dst=(6, "B"))
API = {"begin": (8, "Q"), "end": (16, "Q"), "tid": (28, "I"), "correlation": (32, "I")}
RECORDS = {
    1: ("memcpy", dict(COPY, correlation=(44, "I"))),
    2: ("memset", dict(MEMORY, correlation=(44, "I"), dst=(50, "H"))),
    4: ("driver", API),
    5: ("runtime", API),
    10: ("kernel", {"begin": (16, "Q"), "end": (24, "Q"), "device": (40, "I"), "stream": (48, "I"), "correlation": (92, "I"),
                    "node": (144, "Q")}),
    22: ("memcpy", dict(COPY, correlation=(60, "I"))),
}
# bpf/ptb_agent.h
GPU_CHUNK, GPU_CLOCK, GPU_NAME, CUPTI, GPU_DEVICE, GPU_NOTE, GRAPH_NODE = 3, 5, 7, 8, 9, 10, 11
DEVICE_ATTRIBUTES = ("threads shared warp regs clock sms memory_khz memory_bits threads_per_sm major minor shared_per_sm regs_per_sm "
                     "blocks").split()
COPY_KINDS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
MEMORY_KINDS = {0: "Unknown", 1: "Pageable", 2: "Pinned", 3: "Device", 4: "Array", 5: "Managed", 6: "Device Static",
                7: "Managed Static"}
Act = collections.namedtuple("Act", "kind name device stream begin end correlation bytes op node", defaults=(0,))
Call = collections.namedtuple("Call", "name tid begin end")


class Acts:
    """work: in order of begin. calls: by correlation id, those of the runtime before those of the driver. nodes: of CUDA graphs:
    (node, the one that it is a copy of or 0)."""

    def __init__(self):
        self.work, self.calls, self.devices, self.notes, self.flows = [], {}, [], [], {}
        self.clocks, self.problems, self.nodes = 0, [], []

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
        length, kind, _, aux = struct.unpack_from("<H2BI", payload, at)
        if length < 16 or length % 8 or at + length > len(payload):
            raise ValueError(f"no record at {at} of a chunk: length {length}")
        yield kind, aux, payload[at + 16:at + length]
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


def activity(acts, name, demangle, body):
    what, fields = RECORDS.get(struct.unpack_from("<I", body)[0], (None, None))
    if not what:
        return
    r = {field: struct.unpack_from("<" + form, body, at)[0] for field, (at, form) in fields.items()}
    if not r["begin"] or not r["end"]:
        acts.notes.append(("incomplete", 1))
    elif what == "kernel":
        acts.work.append(Act("kernel", demangle(name), r["device"], r["stream"], r["begin"], r["end"], r["correlation"], 0, None, r["node"]))
    elif what in ("memcpy", "memset"):
        text = f"Memset ({MEMORY_KINDS.get(r['dst'], r['dst'])})" if what == "memset" else \
            f"Memcpy {COPY_KINDS.get(r['copy'], r['copy'])} ({MEMORY_KINDS.get(r['src'])} -> {MEMORY_KINDS.get(r['dst'])})"
        acts.work.append(Act(what, text, r["device"], r["stream"], r["begin"], r["end"], r["correlation"], r["bytes"], None))
    else:
        acts.add_call(r["correlation"], Call(name, r["tid"], r["begin"], r["end"]), what == "driver")


def device(acts, name, body):
    memory, ident, cnt = struct.unpack_from("<Q2I", body)
    values = struct.unpack_from(f"<{min(cnt, len(DEVICE_ATTRIBUTES))}I", body, 16)
    acts.devices.append(dict(zip(DEVICE_ATTRIBUTES, values), id=ident, memory=memory, name=name))


def from_chunks(path):
    with open(path, "rb") as f:
        raw = f.read()
    acts, names, seqs, lost = Acts(), {}, {}, 0
    demangle = demangler()
    for kind, stream, seq, dropped, payload in chunks_of(raw):
        if seq != seqs.get(stream, 0) + 1 and stream in seqs:
            lost += 1
        seqs[stream] = seq
        if dropped:
            acts.problems.append(f"stream {stream} dropped {dropped} records")
        for rec, aux, body in records_of(payload):
            acts.clocks += rec == GPU_CLOCK
            if kind != GPU_CHUNK:
                continue
            if rec == GPU_NAME:
                length = struct.unpack_from("<Q", body)[0]
                names[aux] = body[8:8 + length].decode(errors="replace")
            elif rec == CUPTI:
                activity(acts, names.get(aux, ""), demangle, body)
            elif rec == GPU_DEVICE:
                device(acts, names.get(aux, ""), body)
            elif rec == GRAPH_NODE:
                acts.nodes.append(struct.unpack_from("<2Q", body, 8))
            elif rec == GPU_NOTE:
                acts.notes.append((aux, struct.unpack_from("<Q", body)[0]))
    if lost:
        acts.problems.append(f"{lost} chunks are missing")
    return acts.done()


# ---- two lists of the same work ----

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
    """Names in order, by stream; streams are identified by their work."""
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
    """The median of the ratios of the medians, kernel by kernel: two runs are never equal to the nanosecond."""
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


# ---- CUDA graphs ----

def captured_nodes(acts):
    """Each replayed kernel runs a node whose creation was recorded, by way of what it is a copy of."""
    copies = {node: original for node, original in acts.nodes if original}
    made = {node for node, _ in acts.nodes if node not in copies}
    replays = [w for w in acts.work if w.node]
    unknown = [w for w in replays if copies.get(w.node, w.node) not in made]
    figure = f"{len(replays)} kernels of {len(made)} nodes and {len(copies)} copies"
    return figure, "no kernel was replayed" if not replays else f"not of {len(unknown)}: {unknown[0]}" if unknown else None


def captured_ops(acts):
    """Each replay of a graph has the kernels and operators of the same code that ran eagerly, in the annotation of its capture."""
    events = acts.document["traceEvents"]
    kernels = sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    (eager,) = [e for e in events if e.get("name") == "eager" and e.get("cat") == "user_annotation"]
    ops = {e["args"]["External id"]: e["name"] for e in events if e.get("cat") == "cpu_op"}
    calls = {c: call.begin for c, call in acts.calls.items()}
    want = [(e["name"], ops.get(e["args"].get("External id"))) for e in kernels
            if eager["ts"] * 1000 <= calls.get(e["args"]["correlation"], 0) <= (eager["ts"] + eager["dur"]) * 1000]
    replays = collections.defaultdict(list)
    for e in kernels:
        if "ptbpf.captured_in" in e["args"]:
            replays[e["args"]["correlation"]].append((e["name"], e["args"].get("ptbpf.captured_op")))
    odd = [got for got in replays.values() if got != want]
    figure = f"{len(replays)} replays of {len(want)} kernels: {', '.join(str(op) for _, op in want)}"
    return figure, "nothing was replayed" if not replays or not want else f"{odd[0]}, eagerly {want}" if odd else None
