#!/usr/bin/env python3
"""Replays TensorFlow's security advisories for kernels. For each malformed input, Slipway must give TensorFlow 2.21's
result or refuse the input.

    python3 tests/opfuzz/advisories.py             # under the sanitizers, against advisories.jsonl
    python3 tests/opfuzz/advisories.py --record    # writes advisories.jsonl; needs TensorFlow

The inputs were written from the advisories' descriptions. Each row of advisory_rows.py is one input and begins with the
number of the input's advisory. An advisory about several ops, or about a check that was missing in several ops, has a
row for each op. Each row is run with fed and with constant inputs, and both node by node and compiled.
"""

import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

from advisory_rows import KIN, LITE, ROWS  # noqa: E402
from case import Tensor, dump, tensor  # noqa: E402
from differences import DELIBERATE, KNOWN, different_values, is_refusal  # noqa: E402
from ours import TIERS, Child, Died, Refusal  # noqa: E402

# ---- running ---------------------------------------------------------------------------------


def expected(results):
    """Returns TensorFlow's result in its recorded form: the code and message of a refusal, or the tensors."""
    if results is None:
        return "ended"  # TensorFlow crashed, so any result that Slipway returns without a crash is accepted
    kept = []
    for r in results:
        if isinstance(r, tuple):
            kept.append({"code": r[0], "text": r[1][:200]})
        else:
            kept.append([[dtype, list(shape), summary(dtype, shape, data)] for dtype, shape, data in r])
    return kept


def summary(dtype, shape, data):
    """Returns the values of a tensor, or None if the tensor contains strings or more than 64 values."""
    values = Tensor(dtype, shape, data).values()
    if len(values) > 64 or dtype == 7:
        return None
    return [[repr(x) for x in v] if isinstance(v, tuple) else repr(v) for v in values]


def parsed(value):
    """Converts a value back from its repr(). Complex numbers become pairs."""
    if isinstance(value, list):
        return tuple(map(parsed, value))
    if value in ("True", "False"):
        return value == "True"
    return float(value) if any(c in value for c in ".einf") else int(value)


def problem(case, want, results):
    """Returns a description of the problem, or None if the results agree or differ deliberately from TensorFlow's."""
    found = difference(case, want, results)
    return None if found and any(pattern.search(f"{case.op}: {found}") for pattern, _ in DELIBERATE) else found


def difference(case, want, results):
    if want == "ended":
        return None
    for a, b in zip(want, results):
        if isinstance(a, dict):
            if not is_refusal(b) and a["code"] not in (None, 8, 12):
                return f"we accept; TensorFlow: {a['text']}"
            return None
        if is_refusal(b):
            return None if b.code in (8, 12) else f"we refuse: {b.text[:200]}"
        for (dtype, shape, values), got in zip(a, b):
            if (dtype, tuple(shape)) != (got.dtype, got.shape):
                return f"type {got.dtype} shape {list(got.shape)}, not {dtype} {shape}"
            if values is not None and not case.loose:
                theirs = tensor(dtype, shape, [parsed(v) for v in values])
                different = different_values(case, [(dtype, shape, theirs.data)], [got])
                if different:
                    return different
    return None


def record(python):
    import theirs

    child = theirs.Child(python)
    with open(HERE / "advisories.jsonl", "w") as out:
        for number, case in ROWS:
            out.write(json.dumps([number, case.op, expected(child.run(dump(case)))]) + "\n")
    child.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--runner", default=str(ROOT / "build" / "asan" / "tests" / "op_runner"))
    options = parser.parse_args()
    if options.record:
        return record(sys.executable)
    wanted = [json.loads(line) for line in (HERE / "advisories.jsonl").read_text().splitlines()]
    if [w[:2] for w in wanted] != [[number, case.op] for number, case in ROWS]:
        print("advisories.jsonl does not belong to these rows: record it again")
        return 1
    children = {tier: Child(options.runner, tier) for tier in TIERS}
    failed = refused = 0
    for (number, case), (_, _, want) in zip(ROWS, wanted):
        for tier, child in children.items():
            try:
                results = child.run(case)
                wrong = problem(case, want, results)
                refused += any(isinstance(r, Refusal) for r in results)
            except Died as e:
                wrong = f"{e.signature}\n{e.text}"
            if wrong:
                known = any(pattern.search(f"{case.op}: {wrong}") for pattern, _ in KNOWN)
                failed += not known
                print(f"{'known' if known else 'FAIL'} {number}: {case}\n  {tier}: {wrong}")
    for tier, child in children.items():
        leak = child.leaks()
        if leak:
            failed += 1
            print(f"FAIL leaks [{tier}]: {leak.text}")
        child.stop()
    rows = {(number, case.op) for number, case in ROWS}
    numbers = {n for n, _ in rows}
    print(f"{len(numbers)} advisories: {len(numbers - KIN - LITE)} about ops that we have, {len(numbers & LITE)} about TensorFlow Lite's "
          f"kernels of such ops, {len(numbers & KIN)} about kin of ours; {len(rows)} pairs of advisory and op, "
          f"{len({op for _, op in rows})} ops, "
          f"{len(ROWS)} cases in {len(TIERS)} tiers, {refused} refused")
    print(f"{len(TIERS) * len(ROWS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
