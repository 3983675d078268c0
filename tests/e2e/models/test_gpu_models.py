"""Checks the models that ./run gpu compares and measures. Their weights are random, and their outputs must nevertheless
depend on what the models compute. BERT and VGG19 have half a gigabyte of weights each; ./run gpu checks them."""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

from support import ROOT, SLOW, Case, binary

sys.path.append(os.path.join(ROOT, "tests", "gpu"))
import visit  # noqa: E402

LARGE = ("bert", "vgg19")


class GpuModels(Case):
    def slipway(self, *arguments, **more):
        return subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True, check=True,
                              timeout=300 * SLOW, **more).stdout

    def check(self, name):
        folder = pathlib.Path(self.path(name))
        with tarfile.open(visit.GRAPHS / f"{name}.tar.xz") as archive:
            archive.extractall(folder.parent)
        build = pathlib.Path(binary()).parent
        tests = build if build.name == "tests" else build / "tests"  # slipway_accelerated is in the folder of the tests
        subprocess.run([tests / "fill_weights", folder / "1"], check=True, timeout=300 * SLOW)
        try:
            visit.check_outputs(self.slipway, folder / "1")
        finally:
            shutil.rmtree(folder)

    def test_the_outputs_vary(self):
        names = sorted(path.name.removesuffix(".tar.xz") for path in visit.GRAPHS.glob("*.tar.xz"))
        self.assertLessEqual({"resnet50", "mobilenetv2", "tiny", *LARGE}, set(names))
        for name in names:
            if name not in LARGE:
                with self.subTest(name):
                    self.check(name)
