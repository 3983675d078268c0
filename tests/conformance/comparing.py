"""Compares arrays of numbers and strings. Needs only numpy."""

import numpy as np

SMALLEST_NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}


def spacing(x, name):
    """Returns the distance from each number to the next number of the type `name`."""
    if name != "bfloat16":
        return np.abs(np.spacing(x.reshape(-1)).astype(np.float64))
    # A bfloat16 has the exponent of a float32 and 16 fewer bits in the fraction.
    return np.abs(np.spacing(x.reshape(-1).astype(np.float32)).astype(np.float64)) * 65536



def compare_arrays(theirs, ours, ulps=0, rtol=0, atol=0, signs=True, is_bf16=False):
    """Returns a description of how the arrays differ, or None if they agree. If `is_bf16` is true, the
    arrays contain bfloat16 numbers as float32."""
    if theirs.dtype != ours.dtype:
        return f"type {ours.dtype}, not {theirs.dtype}"
    if theirs.shape != ours.shape:
        return f"shape {list(ours.shape)}, not {list(theirs.shape)}"
    if theirs.dtype == object:
        wrong = np.array([a != b for a, b in zip(theirs.flat, ours.flat)], bool)
        return first_wrong(theirs, ours, wrong)
    if theirs.dtype.kind == "c":
        part = np.float32 if theirs.dtype == np.complex64 else np.float64
        flat = [np.stack([x.real, x.imag]).astype(part) for x in (theirs, ours)]
        if ulps or rtol or atol:
            # Both parts of a complex number are compared relative to the number's magnitude, because cancellation of
            # large numbers may make one part tiny.
            size = np.abs(theirs).astype(np.float64)
            with np.errstate(all="ignore"):
                close = np.abs(theirs - ours) <= ulps * np.spacing(size.astype(part)) + rtol * size + atol
            same = (np.isnan(flat[0]) & np.isnan(flat[1])) | (flat[0] == flat[1])
            return first_wrong(theirs, ours, ~(close | same.all(axis=0)).reshape(-1))
        return compare_arrays(*flat)
    if theirs.dtype.kind in "biu" or theirs.dtype.name.startswith(("int", "uint")):
        return first_wrong(theirs, ours, (theirs != ours).reshape(-1))

    name = "bfloat16" if is_bf16 else theirs.dtype.name
    with np.errstate(all="ignore"):
        a, b = theirs.astype(np.float64).reshape(-1), ours.astype(np.float64).reshape(-1)
        alike = np.isnan(a) & np.isnan(b)
        # TensorFlow's threads flush subnormal numbers to zero.
        smallest = SMALLEST_NORMAL[name]
        alike |= (np.abs(a) < smallest) & (np.abs(b) < smallest) & (a != b)
        same = (a == b) & ((np.signbit(a) == np.signbit(b)) | bool(ulps or rtol or atol or not signs)) | alike
        if ulps or rtol or atol:
            finite = np.isfinite(a) & np.isfinite(b)
            step = spacing(theirs, name)
            largest = np.max(np.abs(a[np.isfinite(a)]), initial=0)
            same |= finite & (np.abs(a - b) <= np.maximum(ulps * step, np.maximum(rtol * largest, atol)))
    return first_wrong(theirs, ours, ~same)


def first_wrong(theirs, ours, wrong):
    n = int(np.count_nonzero(wrong))
    if n == 0:
        return None
    i = int(np.argmax(wrong))
    return f"{n} of {wrong.size} differ, first at {i}: {ours.reshape(-1)[i]!r}, not {theirs.reshape(-1)[i]!r}"
