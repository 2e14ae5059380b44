#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Opens traces with the programs that people open traces with, and holds what they read against the file.

  $PTBPF_ENV_DIR/consumers/bin/python run.py TRACE...    *.json or *.json.gz; test_consumers.py makes the environment
  $PTBPF_ENV_DIR/consumers/bin/python run.py --ranks DIR

HolisticTraceAnalysis (every parser back-end, call graph, steps, correlation with the Execution Trace beside the
trace, and where a trace has GPU work its analyses of that up to the critical path) and the TensorBoard plugin of PyTorch (operator
tree, operator view also by input shapes, steps); tools/validate_trace.py with its schemas and these with jsonschema alone before
them. Prints a line PASS or FAIL for each check.
"""

import argparse
import collections
import gzip
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
ENV = os.path.join(os.environ.get("PTBPF_ENV_DIR", "/var/tmp/ptbpf-envs"), "consumers")
PYTHON = os.path.join(ENV, "bin", "python")
sys.path.append(os.path.join(ROOT, "tools"))
from bundle_schemas import bundled


class Expected:
    """The content of the file, read without any of the tested programs."""

    def __init__(self, path):
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
            doc = json.load(f)
        self.doc = doc
        slices = [e for e in doc["traceEvents"] if e["ph"] == "X" and e["cat"] in ("cpu_op", "user_annotation")]
        self.names = collections.Counter((e["cat"], e["name"]) for e in slices)
        self.ops = sum(n for (cat, _), n in self.names.items() if cat == "cpu_op")
        self.total = len(slices)
        self.threads = len({(e["pid"], e["tid"]) for e in slices})
        steps = [e for e in slices if e["name"].startswith("ProfilerStep#")]
        self.steps = sorted(int(e["name"].split("#")[1]) for e in steps)
        # HTA keeps only the host's events that begin before the last step ends, if there are several steps
        streams = any("stream" in e.get("args", {}) for e in doc["traceEvents"])
        end = max(e["ts"] + e["dur"] for e in steps) if streams and len(steps) > 1 else float("inf")
        self.kept = [e for e in slices if e["ts"] <= end]
        self.kept_names = collections.Counter((e["cat"], e["name"]) for e in self.kept)
        self.rank = doc.get("distributedInfo", {}).get("rank", 0)
        self.slices = slices
        self.work = [e for e in doc["traceEvents"] if e["ph"] == "X" and e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
        self.calls = [e for e in doc["traceEvents"] if e["ph"] == "X" and e["cat"] in ("cuda_runtime", "cuda_driver")]
        # torch's annotations on GPUs repeat steps, and the plugin counts them as steps, too
        self.gpu_steps = [e for e in doc["traceEvents"] if e["ph"] == "X" and e["cat"] == "gpu_user_annotation"
                          and e["name"].startswith("ProfilerStep#")]
        self.call_threads = {(e["pid"], e["tid"]) for e in self.calls} - {(e["pid"], e["tid"]) for e in slices}
        self.et = next((path[:-len(end)] + ".et.json" for end in (".pt.trace.json", ".pt.trace.json.gz")
                        if path.endswith(end) and os.path.exists(path[:-len(end)] + ".et.json")), None)


class Errors(logging.Handler):
    """Errors that a program logs instead of raising."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def same(what, got, want):
    if isinstance(want, collections.Counter) and isinstance(got, collections.Counter):
        got, want = dict(got - want), dict(want - got)
        what += " (differences)"
    if got != want:
        raise AssertionError(f"{what}: read {got}, in the file {want}")


def counts(df, symbols):
    names = symbols.get_sym_table()
    pairs = zip(df["cat"].map(lambda i: names[i]), df["name"].map(lambda i: names[i]))
    return collections.Counter(p for p in pairs if p[0] in ("cpu_op", "user_annotation"))


def check_hta_parsers(path, want):
    from hta.common.trace_parser import parse_trace_dataframe
    from hta.configs.parser_config import ParserBackend, ParserConfig
    for backend in ParserBackend:
        for every_arg in (False, True):
            config = ParserConfig.get_default_cfg()
            config.set_parser_backend(backend)
            config.set_parse_all_args(every_arg)
            meta, df, symbols = parse_trace_dataframe(path, config)
            what = f"{backend.name}, every arg: {every_arg}"
            same(f"{what}: slices by name", counts(df, symbols), want.names)
            same(f"{what}: rank", (meta.get("distributedInfo") or {}).get("rank", 0), want.rank)
            for key in ("schemaVersion", "trace_id", "baseTimeNanoseconds", "host_name"):
                same(f"{what}: {key}", meta.get(key), want.doc[key])
    return f"{len(ParserBackend)} parsers"


def check_hta_analysis(path, want):
    from hta.common.trace import Trace
    from hta.common.trace_call_graph import CallGraph
    from hta.common.trace_file import create_rank_to_trace_dict
    from hta.trace_analysis import TraceAnalysis
    found, by_rank = create_rank_to_trace_dict([path])
    same("files by rank", (found, by_rank), (True, {want.rank: path}))
    trace = Trace(trace_files=by_rank, trace_dir=os.path.dirname(path))
    trace.load_traces(include_last_profiler_step=True, use_multiprocessing=False)
    same("slices by name", counts(trace.get_trace(want.rank), trace.symbol_table), want.kept_names)
    graph = CallGraph(trace)
    # its root nodes have negative numbers; GPU work and CUPTI's overhead are below it, too
    names, cats = trace.symbol_table.get_sym_table(), trace.get_trace(want.rank)["cat"]
    nodes = [n for n in graph.rank_to_nodes[want.rank] if n >= 0 and names[cats[n]] in
             ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver")]
    pids = {e["pid"] for e in want.slices + want.calls}
    same("call graph: threads", sum(i.pid in pids for i in graph.rank_to_stacks[want.rank]), want.threads + len(want.call_threads))
    same("call graph: nodes", len(nodes), len(want.kept) + len(want.calls))
    analysis = TraceAnalysis(trace_files=by_rank, trace_dir=os.path.dirname(path), include_last_profiler_step=True)
    same("steps", sorted(analysis.get_profiler_steps()), want.steps)
    return f"call graph of {len(nodes)} nodes on {want.threads} threads, {len(want.steps)} steps"


def check_hta_gpu(path, want):
    """The analyses of GPU work, compared with the events of the file."""
    if not want.work:
        return "no GPU work"
    from hta.trace_analysis import TraceAnalysis
    analysis = TraceAnalysis(trace_files={want.rank: path}, trace_dir=os.path.dirname(path), include_last_profiler_step=True)
    df = analysis.t.get_trace(want.rank)
    launches = {e["args"]["correlation"] for e in want.calls} & {e["args"]["correlation"] for e in want.work}
    linked = df[(df["stream"] > 0) & df["correlation"].isin(launches)]
    same("work whose launch is not found", int((linked["index_correlation"] <= 0).sum()), 0)
    types, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)
    names = {e["name"] for e in want.work if e["args"]["correlation"] in launches}  # it leaves the others out
    same("names of work", sorted(names - set(kernels["name"])), [])
    stats = analysis.get_cuda_kernel_launch_stats(visualize=False)[want.rank]
    known = [e for e in want.calls if e["name"] in ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")
             and e["args"]["correlation"] in launches]
    same("launches", sorted(stats["correlation"]), sorted(e["args"]["correlation"] for e in known))
    devices = {e["pid"] for e in want.work}
    temporal = analysis.get_temporal_breakdown(visualize=False)
    same("busy and idle", int(temporal["kernel_time(us)"].iloc[0]), int(temporal[["idle_time(us)", "compute_time(us)",
                                                                               "non_compute_time(us)"]].sum(axis=1).iloc[0]))
    idle = analysis.get_idle_time_breakdown(visualize=False)[0]
    queue = analysis.get_queue_length_summary()
    copies = analysis.get_memory_bw_summary()
    same("kinds of copies", len(copies) > 0, any(e["cat"] != "kernel" for e in want.work))
    analysis.get_comm_comp_overlap(visualize=False)
    analysis.get_gpu_user_annotation_breakdown(visualize=False)
    text = (f"{len(want.work)} pieces of work on {len(devices)} GPUs, {len(types)} types, {len(stats)} launches, "
            f"{len(idle)} rows of idle time, {len(queue)} queues")
    if want.steps:
        graph, good = analysis.critical_path_analysis(rank=want.rank, annotation="ProfilerStep", instance_id=len(want.steps) // 2)
        same("critical path", good, True)
        bound = graph.summary()
        if not any(v for k, v in bound.items() if k.startswith("gpu")):
            raise AssertionError("the critical path never meets a GPU")
        text += f", critical path of {len(graph.critical_path_nodes)} nodes"
    return text


class EtNode:
    """The attributes of a node that HTA reads; it reads Execution Traces with a package that is in no registry (et_replay)."""

    def __init__(self, raw):
        attrs = {a["name"]: a["value"] for a in raw["attrs"]}
        self.name, self.rf_id, self.op_schema = raw["name"], attrs["rf_id"], attrs["op_schema"]
        self.input_shapes, self.input_types = raw["inputs"]["shapes"], raw["inputs"]["types"]
        self.output_shapes, self.output_types = raw["outputs"]["shapes"], raw["outputs"]["types"]


class EtFile:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.nodes = {raw["id"]: EtNode(raw) for raw in json.load(f)["nodes"]}


def check_hta_correlation(path, want):
    """Every slice finds its node by its id, and the node's columns belong to the slice."""
    if not want.et:
        return "no Execution Trace beside it"
    from hta.common.execution_trace import add_et_column, correlate_execution_trace
    from hta.common.trace import Trace
    trace = Trace(trace_files={want.rank: path}, trace_dir=os.path.dirname(path))
    trace.load_traces(include_last_profiler_step=True, use_multiprocessing=False)
    et = EtFile(want.et)
    correlate_execution_trace(trace, want.rank, et)
    df, names = trace.get_trace(want.rank), trace.symbol_table.get_sym_table()
    for column in ("et_node_name", "op_schema", "input_shapes"):
        add_et_column(df, et, column)
    rows = df[df["cat"].map(lambda i: names[i]).isin(("cpu_op", "user_annotation"))]
    same("slices", len(rows), len(want.kept))
    same("slices without a node", int(rows["et_node"].isna().sum()), 0)
    same("slices whose node has another name", [(names[i], n) for i, n in zip(rows["name"], rows["et_node_name"]) if names[i] != n], [])
    schemas = sum(bool(s) for s in rows["op_schema"])
    if not schemas:
        raise AssertionError("no operator has a schema")
    return f"{len(rows)} slices of {len(et.nodes)} nodes, {schemas} with a schema"


def tree_names(root):
    out, todo = collections.Counter(), list(root.children)
    while todo:
        node = todo.pop()
        out[node.name] += 1
        todo += node.children
    return out


def folded(events):
    """Names as in the plugin's tree: of annotations only steps; a child with its parent's name and no sibling is folded into
    the parent."""
    by_thread = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X" and (e["cat"] == "cpu_op" or e["name"].startswith("ProfilerStep#")):
            by_thread[e["pid"], e["tid"]].append(e)
    out = collections.Counter()
    for slices in by_thread.values():
        slices.sort(key=lambda e: (e["ts"], -e["dur"], e["args"]["External id"]))
        stack, children = [], collections.defaultdict(list)
        for i, e in enumerate(slices):
            while stack and e["ts"] >= slices[stack[-1]]["ts"] + slices[stack[-1]]["dur"]:
                stack.pop()
            children[stack[-1] if stack else -1].append(i)
            stack.append(i)
        todo = list(children[-1])
        while todo:
            i = todo.pop()
            out[slices[i]["name"]] += 1
            kids = children[i]
            while (len(kids) == 1 and slices[i]["cat"] == slices[kids[0]]["cat"] == "cpu_op" and
                   slices[kids[0]]["name"] == slices[i]["name"]):
                kids = children[kids[0]]
            todo += kids
    return out


def check_tensorboard(path, want):
    from torch_tb_profiler.profiler.data import RunProfileData
    from torch_tb_profiler.profiler.run_generator import RunGenerator
    sys.setrecursionlimit(20000)
    errors = Errors()
    logger = logging.getLogger("tensorboard.plugins.torch_profiler")
    for name in list(logging.root.manager.loggerDict):
        if "torch" in name or "tensorboard" in name:
            logging.getLogger(name).addHandler(errors)
    logger.addHandler(errors)
    data = RunProfileData.parse("worker", None, path, os.path.dirname(path))
    run = RunGenerator("worker", None, data).generate_run_profile()
    same("complaints", errors.texts[:3], [])
    names = sum((tree_names(t) for t in data.tid2tree.values()), collections.Counter())
    same("operator tree", names, folded(want.doc["traceEvents"]))
    same("threads", len(data.tid2tree), want.threads + len({(e["pid"], e["tid"]) for e in want.gpu_steps}))
    same("steps", sorted(set(map(int, data.steps_names))) if want.steps else [], want.steps)
    if want.work:
        kernels = {e["name"] for e in want.work if e["cat"] == "kernel"}
        same("kernels", {row[0] for row in run.kernel_table["data"]["rows"]}, kernels)
        same("GPUs", [f"GPU {d['id']}:" in {v["title"] for v in run.gpu_summary} for d in want.doc["deviceProperties"]],
             [True] * len(want.doc["deviceProperties"]))
    table = run.operation_table_by_name["data"]
    if not table or run.views is None:
        raise AssertionError("an empty operator view")
    calls = sum(row["calls"] for row in table)
    by_shape = run.operation_table_by_name_input["data"]
    same("calls by input shapes", sum(row["calls"] for row in by_shape), calls)
    if want.et:
        texts = {(e["name"], str(e["args"]["Input Dims"])) for e in want.slices if "Input Dims" in e["args"]}
        odd = [(row["name"], row["input_shape"]) for row in by_shape if row["input_shape"] not in ("", "[]")
               and (row["name"], row["input_shape"]) not in texts]
        same("rows whose input shapes no slice has", odd[:5], [])
        same("rows with input shapes", any(row["input_shape"] not in ("", "[]") for row in by_shape), True)
    return (f"operator tree of {sum(names.values())} nodes, operator view of {len(table)} rows ({len(by_shape)} by input shapes) "
            f"and {calls} calls")


def check_rules(path, want):
    """ptbpf's own validator; of other traces the rules that apply to all."""
    kind = ["--need-schema"] if "ptbpf" in want.doc else ["--torch"]
    r = subprocess.run([PYTHON, os.path.join(ROOT, "tools", "validate_trace.py"), *kind, path], text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if r.returncode:
        raise AssertionError(r.stdout)
    return r.stdout.strip().rsplit(": ", 1)[-1]


def check_schemas(path, want):
    """The schemas in ordinary use: one file, the library, no registry."""
    import jsonschema
    if "ptbpf" not in want.doc:
        return "not ptbpf's"
    docs = {"chrome_trace": dict(want.doc)}
    if want.et:
        with open(want.et, encoding="utf-8") as f:
            docs["execution_trace"] = json.load(f)
    for name, doc in docs.items():
        key = "traceEvents" if "traceEvents" in doc else "nodes"
        kinds = collections.defaultdict(list)  # some of each kind: a whole trace takes minutes
        for e in doc[key]:
            kinds[e.get("ph"), e.get("cat"), tuple(sorted(e.get("args", ())))].append(e)
        doc[key] = [e for some in kinds.values() for e in some[:20]]
        jsonschema.validate(doc, bundled(name))
    return f"{len(docs)} documents"


CHECKS = {"validator": check_rules, "schemas": check_schemas, "hta_parsers": check_hta_parsers, "hta_analysis": check_hta_analysis,
          "hta_correlation": check_hta_correlation, "hta_gpu": check_hta_gpu,
          "tensorboard": check_tensorboard}


def check(path):
    want = Expected(path)
    # programs compare names: HTA the end, the plugin the whole
    suffix = ".pt.trace.json.gz" if path.endswith(".gz") else ".pt.trace.json"
    failed = 0
    for name, fn in CHECKS.items():
        title = f"consumers.{name}.{os.path.basename(path)}"
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "worker.1" + suffix)
            shutil.copyfile(path, copy)
            try:
                print(f"PASS {title}: {fn(copy, want)}", flush=True)
            except Exception as err:  # any error of a consumer
                failed += 1
                print(f"FAIL {title}: {type(err).__name__}: {str(err)[:1500]}", flush=True)
    return failed


def check_ranks(folder):
    """HTA takes the folder as one job: its ranks, all their slices, one axis of time."""
    from hta.trace_analysis import TraceAnalysis
    want = {e.rank: e for e in (Expected(os.path.join(folder, name)) for name in os.listdir(folder))}
    analysis = TraceAnalysis(trace_dir=folder, include_last_profiler_step=True)
    same("ranks", sorted(analysis.t.traces), sorted(want))
    names, begins = analysis.t.symbol_table.get_sym_table(), {}
    for rank, df in analysis.t.traces.items():
        same(f"rank {rank}: slices by name", counts(df, analysis.t.symbol_table), want[rank].kept_names)
        begins[rank] = sorted(df[df["name"].map(lambda i: names[i]) == "c10d::allreduce_"]["ts"])
    last = [b[-1] for b in begins.values()]
    if not max(last) - min(last) < 5000:
        raise AssertionError(f"the last collective begins at {last} us")
    return f"{len(want)} ranks, {sum(map(len, begins.values()))} collectives"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("traces", nargs="*", metavar="TRACE")
    ap.add_argument("--ranks", metavar="DIR", help="with a trace of each rank")
    args = ap.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    # its whole microseconds make the duration of shorter slices negative, of torch's traces too
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    if args.ranks:
        print(f"PASS consumers.hta_ranks: {check_ranks(args.ranks)}")
    sys.exit(1 if sum(check(os.path.abspath(t)) for t in args.traces) else 0)


if __name__ == "__main__":
    main()
