# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Rules for the Python functions of a trace; used by validate_trace.py."""


def check(doc, tracks, findings):
    """Ids of functions are 1, 2, ..., each is called by the one around it, and operators have the functions around them."""
    totals = doc["ptbpf_totals"].get("python", {})
    all_there = not totals.get("functions_not_drawn")
    ids = []
    for slices in tracks.values():
        stack = []
        for s in sorted(slices, key=lambda s: (s.begin, -s.end)):
            while stack and s.begin >= stack[-1].end:
                stack.pop()
            around = [f.event for f in stack if f.event["cat"] == "python_function"]
            args = s.event["args"]
            if s.event["cat"] == "python_function":
                ids.append(args["Python id"])
                if args.get("Python parent id") != (around[-1]["args"]["Python id"] if around else None):
                    findings.add("python", f"its parent is not the function around it: {s}")
            elif "Call stack" in args and around and s.event["cat"] == "cpu_op":
                if all_there and args["Call stack"].split(";")[-2::-1] != [f["name"] for f in around]:
                    findings.add("python", f"lies in other functions than it was called by: {s}")
            stack.append(s)
    if sorted(ids) != list(range(1, len(ids) + 1)):
        findings.add("python", "Python ids are not 1, 2, ...")
    if len(ids) != totals.get("functions", 0):
        findings.add("python", f"{len(ids)} functions, but ptbpf_totals says {totals}")
