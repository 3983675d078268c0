#!/usr/bin/env python3
"""Checks the rules of the source tree. Files include only headers of their own layer and of lower layers. Lines have at
most 140 columns in Python, 120 in Markdown and 100 in other files. No banned function is called, and no path on a
developer's machine occurs. Links in documents have targets. clang-format, where it is installed, changes nothing. Each
finding is printed on a line, and the exit status is 1 if there are any."""
import glob
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WIDTH = 100
WIDTH_PYTHON = 140
WIDTH_MARKDOWN = 120  # maximum line length in Markdown, except in tables and code
README_WORDS = 1200  # the number of words that a newcomer reads in about five minutes

# The layers that each layer may include. The longest matching prefix gives a file's layer. Generated messages
# ("tensorflow/...pb-c.h") belong to proto.
LAYERS = {
    "runtime/base/": {"runtime/base/"},
    "proto/": {"runtime/base/", "proto/"},
    "runtime/": {"runtime/base/", "proto/", "runtime/"},
    "kernels/": {"runtime/base/", "runtime/", "kernels/"},
    "clients/http/": {"runtime/base/", "clients/http/"},
    "server/": {"runtime/base/", "proto/", "runtime/", "clients/http/", "server/"},
    "clients/": {"runtime/base/", "proto/", "clients/http/", "clients/"},
    "server/main.c": {"runtime/base/", "proto/", "runtime/", "kernels/", "clients/http/", "server/", "clients/"},
}
# A protocol's folder below server/protocol/ is included only from itself, from the table of protocols, and from the
# files that are listed here. These handle messages of the protocol, whatever protocol a request used.
PROTOCOL = re.compile(r"server/protocol/\w+/")
TABLE_OF_PROTOCOLS = "server/protocols.c"
HANDLES_MESSAGES_OF = {
    "server/protocol/tfs/": {
        "server/commands/command_run.h",  # `slipway run` reads and writes bodies of the REST API
        "server/protocol/oip/oip_json.c", "server/protocol/oip/oip_proto.c",  # inferences are logged as Predict
        "server/replay/golden_compare.c", "server/replay/warmup.c",  # records are PredictionLogs
        "server/request_log/request_log.c"},
    "server/protocol/oip/": {"server/replay/model_warmup.c"},  # warm-up requests of config.pbtxt are ModelInferRequests
}
GENERATED = ("inference/", "tensorflow/", "tensorflow_serving/", "google/protobuf/", "grpc/health/",
             "grpc/reflection/", "opentelemetry/", "slipway/")
# The transports name no call, message or header of a single protocol. The exception is SSLConfig, the file format of
# --ssl_config_file.
TRANSPORTS = ("server/http/", "server/grpc/")
OF_ONE_PROTOCOL = re.compile(
    r"tensorflow\.|tensorflow_serving/apis|\w*(?:Prediction|Model|Session|GRPCInference)Service|ReloadConfig|ModelInfer"
    r"|Inference-Header|/v[12]\b|#include \"inference/")
BANNED = {"strcpy", "strcat", "sprintf", "strncpy", "strtok", "atoi", "alloca"}
ONLY_IN_MAIN = {"getenv", "setlocale"}
# The output of commands may contain text from models and servers, so rt_print (runtime/base/print.h) escapes it.
PRINTS_RAW = re.compile(r"\bprintf\s*\(|\bfprintf\s*\(\s*std(?:out|err)")
PRINTS_ESCAPED = ("server/commands/", "clients/cli/", "server/server.c")
# Only the test that compares this function with proto/unpack.c may call it, because the function trusts its input.
ONLY_IN_A_TEST = {"protobuf_c_message_unpack"}
# Kernels must use the functions of runtime/base/checked.h instead of the compiler's builtins.
NOT_IN_KERNELS = {f"__builtin_{how}_overflow" for how in ("add", "sub", "mul")}
# A kernel uses rt_scratch, rt_run_alloc or kn_text_begin for allocations whose size depends on data, so that these
# allocations count against the limit of a run.
ALLOCATES = re.compile(r"\b(?:malloc|realloc|reallocarray|aligned_alloc|posix_memalign|calloc(?!\(1, sizeof \*?[\w>-]+\)))\s*\(")
# Files whose allocations do not count against the limit of a run: `prepare` may allocate as much as the graph and its
# constants require, look-up tables count their memory themselves, a copier has one buffer, and a queue, a barrier or a
# SentencePiece model is allocated when its plan is made.
NOT_OF_A_RUN = {
    "kernels/conv/conv_onednn.c", "kernels/cuda/driver/copier.c", "kernels/fused/epilogue.c",
    "kernels/conv/winograd_tiles.c", "kernels/lookup/table.c", "kernels/lookup/table_dense.c", "kernels/queue/barrier.c",
    "kernels/queue/queue.c", "kernels/text/sentencepiece_model.c", "kernels/text/trie_builder.c"}
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:home|root|opt|work|Users)/[A-Za-z]")


def layer_of(path):
    found = [prefix for prefix in LAYERS if path.startswith(prefix)]
    return max(found, key=len) if found else None


def check_includes(path, text):
    layer = layer_of(path)
    if layer is None or "/examples/" in path:
        return  # tests and examples may include every layer
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not match:
            continue
        header = match.group(1)
        target = "proto/" if header.startswith(GENERATED) else layer_of(header)
        if target is None:
            yield number, f'includes "{header}", which is in no layer'
        elif target not in LAYERS[layer]:
            yield number, f'includes "{header}": {layer} may not include {target}'


def check_protocols(path, text):
    if path.startswith("tests/") or path == TABLE_OF_PROTOCOLS:
        return
    included = set()
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        folder = match and PROTOCOL.match(match[1])
        if not folder or path.startswith(folder[0]):
            continue
        included.add(folder[0])
        if path not in HANDLES_MESSAGES_OF.get(folder[0], ()):
            yield number, f'includes "{match[1]}": what several protocols share belongs in server/protocol/'
    for folder, paths in HANDLES_MESSAGES_OF.items():
        if path in paths and folder not in included:
            yield 1, f"no longer includes headers of {folder}: remove it from HANDLES_MESSAGES_OF in tests/lint/lint.py"


def check_transports(path, text):
    if not path.startswith(TRANSPORTS):
        return
    for number, line in enumerate(without_comments(text).splitlines(), 1):
        if match := OF_ONE_PROTOCOL.search(line):
            yield number, f'names "{match[0]}": what one protocol knows belongs in its folder below server/protocol/'


def check_included_sources(path, text):
    del path
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+["<]([^">]+\.c)[">]', line)
        if match:
            yield number, f'includes "{match.group(1)}": what other files need of a .c file belongs in a header'


def without_comments(text):
    pattern = r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, lambda m: m[0] if m[0][0] == '"' else re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)


def without_comments_and_strings(text):
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)


def check_calls(path, text):
    banned = set(BANNED)
    if path != "server/main.c" and not path.startswith("tests/"):
        banned |= ONLY_IN_MAIN
    if path != "tests/unit/proto/test_unpack.c":
        banned |= ONLY_IN_A_TEST
    if path.startswith("kernels/"):
        banned |= NOT_IN_KERNELS
    for number, line in enumerate(without_comments_and_strings(text).splitlines(), 1):
        if path.startswith(PRINTS_ESCAPED) and PRINTS_RAW.search(line):
            yield number, "prints without rt_print"
        for name in re.findall(r"\b([a-z_]+)\s*\(", line):
            if name in banned or name.endswith("__unpack"):
                yield number, f"calls {name}, which is banned here"


def check_allocations(path, text):
    if not path.startswith("kernels/") or path in NOT_OF_A_RUN:
        return
    for number, line in enumerate(without_comments_and_strings(text).splitlines(), 1):
        if ALLOCATES.search(line):
            yield number, "allocates what does not count against the limit of the run"


def check_lines(path, text):
    width = WIDTH_PYTHON if path.endswith(".py") else WIDTH
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > width:
            yield number, f"{len(line)} columns, at most {width}"
        if line != line.rstrip():
            yield number, "ends in white space"


def check_paths(path, text):
    del path
    for number, line in enumerate(text.splitlines(), 1):
        if MACHINE_PATH.search(line):
            yield number, "names a path of one machine"


# ---- documents ----

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# Matches a path in the tree as documents name it, such as `server/main.c`, `runtime/fusion/fuse_*.c` or `tests/unit`.
NAMED_FILE = re.compile(r"`((?:clients|cmake|docker|docs|kernels|models|proto|runtime|server|tests)/[\w./*-]+)`")


def prose(text):
    """Yields (number, line) for each line outside of tables and fenced blocks."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*```", line):
            fenced = not fenced
        elif not fenced and not re.match(r"\s*\|", line):
            yield number, line


def without_code(text):
    """Returns `text` with each fenced block replaced by empty lines, so that the other lines keep their numbers."""
    return re.sub(r"^( *)```.*?^\1```", lambda m: re.sub(r"[^\n]", "", m[0]), text, flags=re.M | re.S)


def anchors(path):
    """Returns the anchors of a document's headings, as GitHub names them."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        headings = re.findall(r"^#+ +(.*)", without_code(file.read()), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_document(path, text):
    for number, line in prose(text):
        if len(line) > WIDTH_MARKDOWN:
            yield number, f"{len(line)} columns, at most {WIDTH_MARKDOWN}"
        if line != line.rstrip():
            yield number, "ends in white space"
    if path == "README.md" and len(text.split()) > README_WORDS:
        yield 1, f"{len(text.split())} words, at most {README_WORDS}: docs/ has room"
    plain = without_code(text)
    for match in LINK.finditer(plain):
        target, number = match[1], plain.count("\n", 0, match.end()) + 1
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(os.path.join(ROOT, file)):
            yield number, f"links to {target}, which is not there"
        elif anchor and anchor not in anchors(file):
            yield number, f"links to {target}, which has no such heading"
    for match in NAMED_FILE.finditer(plain):
        if not glob.glob(os.path.join(ROOT, match[1])):
            yield plain.count("\n", 0, match.end()) + 1, f"names {match[1]}, which is not there"


def check_format(files):
    tool = shutil.which("clang-format")
    if not tool or not files:
        return []
    done = subprocess.run([tool, "--dry-run", "-Werror", *files], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode == 0:
        return []
    where = sorted(set(re.findall(r"^([^:\s]+):\d+:\d+: error", done.stdout, flags=re.M)))
    return [f"{path}: clang-format would change it (./run format)" for path in where] or [
        done.stdout.strip()]


def tracked():
    """Returns every file that git does not ignore or, in a copy without git, every file outside of build/."""
    git = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if git.returncode == 0 and git.stdout:
        names = git.stdout.splitlines()
    else:
        names = []
        for folder, folders, files in os.walk(ROOT):
            folders[:] = [f for f in folders if f not in ("build", ".git", "__pycache__")]
            names += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files]
    return sorted(n for n in names if os.path.isfile(os.path.join(ROOT, n)))


def main():
    findings, formatted = [], []
    for path in tracked():
        kind = os.path.splitext(path)[1]
        if kind not in (".c", ".cc", ".h", ".py", ".sh", ".cmake", ".txt", ".inc", ".cu", ".cuh", ".md", ""):
            continue
        if path.startswith(("models/", "tests/fuzz/corpus/")) and kind != ".py":
            continue
        try:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                text = file.read()
        except UnicodeDecodeError:
            continue
        checks = [check_paths]
        if kind in (".c", ".h", ".cu", ".cuh") or (kind == ".cc" and path.startswith("kernels/")):
            checks += [check_includes, check_protocols, check_transports, check_included_sources,
                       check_calls, check_allocations, check_lines]
            formatted.append(path)
        elif kind == ".py" and not path.startswith("tests/conformance/specs/"):
            checks.append(check_lines)  # specifications are tables
        elif kind == ".md":
            checks.append(check_document)
        for check in checks:
            findings += [f"{path}:{number}: {what}" for number, what in check(path, text)]
    findings += check_format(formatted)
    print("\n".join(findings) if findings else f"lint: {len(formatted)} C files and all is well")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
