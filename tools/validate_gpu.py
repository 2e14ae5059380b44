# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Rules for GPU activities in a Chrome trace that a schema cannot express; used by validate_trace.py."""

import collections

CALLS = ("cuda_runtime", "cuda_driver")
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
GPU = WORK + ("cuda_sync", "cuda_event", "gpu_user_annotation", "overhead")
# calls that torch never records (kineto CuptiCbidRegistry.cpp)
NEVER = ("cudaGetDevice", "cudaSetDevice", "cudaGetLastError", "cudaEventCreate", "cudaEventCreateWithFlags",
         "cudaEventDestroy")
LAUNCHES = ("Launch", "GraphLaunch", "Memcpy", "Memset")
SYNC_ROW, OWNER_ROW, OVERLAP_ROW = 1000000, 10000000, 1000000000
UNNAMED = "unknown call"
DEVICE_PIDS = 5000000  # of devices whose number a process has


def by_category(events):
    out = collections.defaultdict(list)
    for e in events:
        if e.get("ph") == "X" and (e.get("cat") in CALLS or e.get("cat") in GPU):
            out[e["cat"]].append(e)
    return out


def is_launch(e):
    name = e["name"]
    verb = name[4:] if name.startswith("cuda") else name[2:]
    return name == UNNAMED or verb.startswith(LAUNCHES) and not verb.startswith("LaunchHostFunc")


def check_calls(calls, findings):
    """One launch per correlation id; ids without a GPU slice are unique."""
    launches, host = {}, set()
    for e in calls:
        a = e["args"]
        if e["name"] in NEVER:
            findings.add("gpu", f"torch never shows this call: {e}")
        if e["name"].rsplit("_v", 1)[-1].isdigit() and len(e["name"].rsplit("_v", 1)[-1]) > 3:
            findings.add("gpu", f"a name with CUPTI's version: {e}")
        if "ptbpf.host_only" in a:
            if a["correlation"] in host:
                findings.add("gpu", f"a number given twice: {e}")
            host.add(a["correlation"])
        elif is_launch(e) and a["correlation"]:
            if a["correlation"] in launches:
                findings.add("gpu", f"two launches of correlation {a['correlation']}: {e}")
            launches[a["correlation"]] = e
    for e in calls:
        if "ptbpf.host_only" not in e["args"] and e["args"]["correlation"] in host:
            findings.add("gpu", f"a number given to a call that CUPTI did not see: {e}")
    return launches, host


def check_rows(doc, cats, findings):
    """A device is the process, a stream the thread, and the args have the same values. What overlaps is on rows whose names say of which stream."""
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in doc["traceEvents"] if e["name"] == "thread_name"}
    for e in (e for cat in WORK + ("cuda_sync", "cuda_event") for e in cats[cat]):
        a = e["args"]
        device = a.get("device", a.get("inDevice"))
        row = 1 if a["stream"] == -1 else a["stream"] + (SYNC_ROW if e["name"] == "Stream Sync" else 0)
        name = "no stream" if a["stream"] == -1 else f"stream {a['stream']}" + (" (sync)" if e["name"] == "Stream Sync" else "")
        there = (names.get((e["pid"], e["tid"]), "").startswith(f"{name} (overlap ") if e["tid"] >= OVERLAP_ROW else
                 e["tid"] % OWNER_ROW == row % OWNER_ROW)
        if e["pid"] not in (device, DEVICE_PIDS + device) or not there:
            findings.add("gpu", f"not on the row of its device and stream: {e}")
        if e["cat"] in WORK and a["stream"] < 1:
            findings.add("gpu", f"work on stream {a['stream']}: consumers take it for the CPU's: {e}")


def check_overlaps(cats, to_ns, findings):
    """Readers drop what crosses a slice of its row. On the rows of streams is all that need not be beside them."""
    rows = collections.defaultdict(list)
    for e in (e for cat in WORK + ("cuda_sync", "gpu_user_annotation") for e in cats[cat]):
        begin = to_ns(e["ts"])
        rows[e["pid"], e["tid"]].append((begin, -(begin + to_ns(e["dur"])), e))
    for row in rows.values():
        row.sort(key=lambda r: r[:2])
        ends, work = [], 0
        for begin, end, e in row:
            while ends and ends[-1] <= begin:
                ends.pop()
            if ends and ends[-1] < -end or e["cat"] in WORK and begin < work:
                findings.add("gpu", f"crosses another slice of its row: {e}")
            ends.append(-end)
            work = -end if e["cat"] in WORK else work
    for (_, tid), row in rows.items():
        for begin, end, e in row if tid >= OVERLAP_ROW else ():
            stream = e["args"].get("stream")
            if not any(b < -end and begin < -n for key, other in rows.items() if key != (e["pid"], tid) and key[0] == e["pid"] for b, n, o in other
                       if stream is None or o["args"].get("stream", stream) == stream):
                findings.add("gpu", f"beside its stream's row, where it overlaps nothing: {e}")


LIMITS = (("WARPS", "blockLimitWarps"), ("REGS", "blockLimitRegs"), ("SMEM", "blockLimitSharedMem"), ("BLOCKS", "blockLimitBlocks"),
          ("BARRIERS", "blockLimitBarriers"))


def check_occupancy(cats, findings):
    """The number of blocks is the lowest limit, which is named."""
    for e in cats["kernel"]:
        occ = e["args"].get("occupancy")
        if not occ:
            continue
        low = min(occ[key] for _, key in LIMITS)
        if occ["activeBlocksPerMultiprocessor"] != low or occ["limitingFactors"] != "|".join(n for n, key in LIMITS if occ[key] == low):
            findings.add("gpu", f"the occupancy does not follow from its limits: {e}")


def earliest(launch, to_ns):
    """Begin of a call, which may have been cut to fit among the slices of its thread."""
    cut = launch["args"].get("ptbpf.clipped_us")
    return to_ns(launch["ts"]) - (to_ns(cut) if cut is not None else 0)


def check_launches(cats, launches, host, err_ns, to_ns, findings):
    """No work begins before its launch, except for the clocks' error, unless it is marked."""
    early = 0
    for e in (e for cat in WORK for e in cats[cat]):
        launch, a = launches.get(e["args"]["correlation"]), e["args"]
        if a["correlation"] in host:
            findings.add("gpu", f"has the number of a call that only the host saw: {e}")
        marked = "ptbpf.before_launch" in a
        early += marked
        if launch and not marked and to_ns(e["ts"]) + err_ns < earliest(launch, to_ns):
            findings.add("gpu", f"began before its launch, by more than {err_ns} ns: {e}")
        if launch and launch["args"].get("External id") != a.get("External id"):
            findings.add("gpu", f"another External id than its launch: {e}")
        if "memory bandwidth (GB/s)" in a and to_ns(e["dur"]):
            rate = a["bytes"] / to_ns(e["dur"])
            if abs(float(a["memory bandwidth (GB/s)"]) - rate) > 0.01 * rate + 0.001:
                findings.add("gpu", f"bandwidth is not {rate:.3f}: {e}")
    return early


def check_flows(events, cats, launches, to_ns, findings):
    """ac2g: one begin, on the launch; ends on its work; none without the other."""
    ends = {"s": collections.Counter(), "f": collections.Counter()}
    works = collections.Counter((e["args"]["correlation"], e["pid"], e["tid"], to_ns(e["ts"])) for cat in WORK for e in cats[cat])
    for e in (e for e in events if e.get("cat") == "ac2g"):
        ends[e["ph"]][e["id"]] += 1
        if e["ph"] == "s":
            launch = launches.get(e["id"])
            if not launch or (launch["pid"], launch["tid"], launch["ts"]) != (e["pid"], e["tid"], e["ts"]):
                findings.add("gpu", f"no launch of that correlation begins where the flow does: {e}")
        elif not works[e["id"], e["pid"], e["tid"], to_ns(e["ts"])]:
            findings.add("gpu", f"no work of that correlation begins where the flow ends: {e}")
    for i, n in ends["s"].items():
        if n > 1:
            findings.add("gpu", f"flow {i} begins {n} times")
    for i in ends["s"].keys() ^ ends["f"].keys():
        findings.add("gpu", f"flow {i} has one end only")
    linked = sum(e["args"]["correlation"] in launches for cat in WORK for e in cats[cat])
    if sum(ends["f"].values()) != linked:
        findings.add("gpu", f"{sum(ends['f'].values())} flows end, {linked} pieces of work have a launch")
    return sum(ends["f"].values())


def check_sync(cats, calls, to_ns, findings):
    """Events that are waited for were recorded before."""
    records = {e["args"]["correlation"]: e for e in calls if e["name"].startswith(("cudaEventRecord", "cuEventRecord"))}
    for e in cats["cuda_sync"]:
        i = e["args"].get("wait_on_cuda_event_record_corr_id", -1)
        if e["args"]["cuda_sync_kind"] != e["name"]:
            findings.add("gpu", f"kind and name differ: {e}")
        if i in records and to_ns(records[i]["ts"]) > to_ns(e["ts"]) + to_ns(e["dur"]):
            findings.add("gpu", f"waits for an event that is recorded later: {e}")


def check_tracks(doc, cats, findings):
    names = collections.Counter((e["name"], e["pid"], e["tid"]) for e in doc["traceEvents"] if e.get("ph") == "M")
    rows = {(e["pid"], e["tid"]) for cat in WORK + ("cuda_sync", "cuda_event", "gpu_user_annotation") for e in cats[cat]}
    for pid, tid in rows:
        for key in (("process_name", pid, 0), ("process_labels", pid, 0), ("process_sort_index", pid, 0),
                    ("thread_name", pid, tid), ("thread_sort_index", pid, tid)):
            if not names[key]:
                findings.add("gpu", f"no {key[0]} for pid {pid} tid {tid}")
    if cats["overhead"] and not names["process_name", -1, 0]:
        findings.add("gpu", "no name of the row of overheads")


def check_annotations(doc, cats, findings):
    slices = {e["args"]["External id"]: e for e in doc["traceEvents"] if e.get("ph") == "X" and e.get("cat") == "user_annotation"}
    for e in cats["gpu_user_annotation"]:
        on = slices.get(e["args"]["External id"])
        if not on or on["name"] != e["name"]:
            findings.add("gpu", f"no annotation of that id and name: {e}")


def check(doc, to_ns, findings):
    """Returns a summary in words; "" if there are no GPUs."""
    events, cats = doc["traceEvents"], by_category(doc["traceEvents"])
    calls = cats["cuda_runtime"] + cats["cuda_driver"]
    totals = doc["ptbpf_totals"]["totals"]
    account = doc["ptbpf_totals"].get("gpu")
    if not account:
        if any(cats.values()):
            findings.add("gpu", "slices of GPUs without their totals")
        return ""
    cuda = doc["ptbpf"].get("cuda", {})
    launches, host = check_calls(calls, findings)
    check_rows(doc, cats, findings)
    check_overlaps(cats, to_ns, findings)
    check_occupancy(cats, findings)
    early = check_launches(cats, launches, host, cuda.get("clock_error_ns", 0), to_ns, findings)
    flows = check_flows(events, cats, launches, to_ns, findings)
    check_sync(cats, calls, to_ns, findings)
    check_tracks(doc, cats, findings)
    check_annotations(doc, cats, findings)
    work = sum(len(cats[c]) for c in WORK)
    counts = {"work": work, "calls": len(calls), "flows": flows, "annotations": len(cats["gpu_user_annotation"]),
              "synchronisations": len(cats["cuda_sync"]), "events": len(cats["cuda_event"]), "overheads": len(cats["overhead"])}
    for key, cnt in counts.items():
        if account[key] != cnt:
            findings.add("account", f"totals say {account[key]} {key} of GPUs, there are {cnt}")
    only_one = "only_pid" in doc["ptbpf_totals"]
    if not only_one and (totals["gpu_work"], totals["gpu_before_launch"]) != (work, early):
        findings.add("account", f"totals say {totals['gpu_work']} GPU activities, {totals['gpu_before_launch']} before their "
                                f"launch, there are {work} and {early}")
    if not only_one and totals["gpu_calls"] != len(calls) + account["calls_not_shown"] + account["calls_left_out"]:
        findings.add("account", "calls shown, not shown and left out are not all calls")
    clipped = sum("ptbpf.clipped_us" in e["args"] for e in calls)
    if clipped != account["calls_clipped"] + account["calls_clipped_beyond_clock_error"]:
        findings.add("account", f"{clipped} calls are clipped, totals say otherwise")
    return f", {len(calls)} CUDA calls, {work} GPU activities"
