"""Tests versions that are copied slowly, incompletely or out of order, or added through links, and versions that change
or vanish while they are read. A partial version is never served, and the old version continues to be served.

All cases share one server. Each case has its own model and its own thread, because most of the time
is spent waiting until files have stopped changing."""
import os
import shutil
import threading
import time

from support import MODELS, SLOW, Case, Server, wait_for

OLD, NEW = 3.5, 2.5  # the outputs of half_plus_two's versions 1 and 2 for the input 1
SOURCE = os.path.join(MODELS, "half_plus_two", "2")
PB, INDEX, DATA = "saved_model.pb", "variables/variables.index", \
    "variables/variables.data-00000-of-00001"
PAUSE = 0.35


class Model:
    """One model in the server's folder. Its version 1 exists and is served."""

    def __init__(self, case, server, name):
        self.server, self.name = server, name
        self.path = case.path("models", name)
        self.aside = case.path("aside", name)
        os.makedirs(os.path.dirname(self.aside), exist_ok=True)
        self.answers, self.whole = [], False

    def file(self, name, version="2"):
        return os.path.join(self.path, version, name)

    def ask(self):
        answer = self.server.predict(self.name, [1.0])[0]
        if answer == NEW and not self.whole:
            raise AssertionError(f"{self.name}: a version that was not whole was served")
        if answer not in (OLD, NEW):
            raise AssertionError(f"{self.name}: {answer} is no version's answer")
        return answer

    def pause(self, seconds=PAUSE):
        """Sends requests continuously for the given number of seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.ask()
            time.sleep(0.05)

    def copy(self, name, to=None):
        to = to or self.file(name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copyfile(os.path.join(SOURCE, name), to)

    def copy_slowly(self, name, pieces=3):
        with open(os.path.join(SOURCE, name), "rb") as file:
            data = file.read()
        os.makedirs(os.path.dirname(self.file(name)), exist_ok=True)
        step = len(data) // pieces + 1
        with open(self.file(name), "wb", buffering=0) as file:
            for at in range(0, len(data), step):
                file.write(data[at:at + step])
                self.pause()

    def comes(self, version=2):
        """Sends requests until the version, which is now complete, is served. Fails if this takes too long."""
        self.whole = True
        wait_for(lambda: self.ask() == NEW, f"version {version} of {self.name}")
        wait_for(lambda: self.server.state(self.name, version) == "AVAILABLE", "its state")

    def fails(self, version=2):
        wait_for(lambda: self.server.state(self.name, version) == "END",
                 f"the end of version {version} of {self.name}")
        message = self.server.states(self.name)[version][1]
        if not message:
            raise AssertionError(f"{self.name}: version {version} has failed without a word")
        self.ask()
        return message


# ---- the cases: each gets a model ----

def renamed_into_place(m):
    shutil.copytree(SOURCE, m.aside)
    m.whole = True
    os.rename(m.aside, m.file(""))
    m.comes()


def slowly_with_the_graph_last(m):
    for name in (INDEX, DATA, PB):
        m.copy_slowly(name)
    m.comes()


def out_of_order_with_the_index_last(m):
    for name in (PB, DATA):
        m.copy_slowly(name, 2)
    m.pause(1.6)
    m.copy(INDEX)
    m.comes()


def the_graph_without_its_variables(m):
    m.copy(PB)
    m.pause(2)
    assert m.server.state(m.name, 2) != "AVAILABLE"
    m.copy(DATA)
    m.copy(INDEX)
    m.comes()


def data_that_grows(m):
    m.copy(INDEX)
    m.copy(PB)
    m.copy_slowly(DATA, 4)
    m.comes()


def data_of_full_size_that_is_still_zeros(m):
    """Some programs first allocate the full size of a file, so only the checksum shows that the data is missing."""
    m.copy(INDEX)
    m.copy(PB)
    with open(m.file(DATA), "wb") as file:
        file.truncate(os.path.getsize(os.path.join(SOURCE, DATA)))
    m.fails()
    m.copy(DATA)
    m.comes()


def old_times_on_new_files(m):
    """cp -p preserves the modification times of the source, so the new files appear to be old."""
    for name in (PB, INDEX, DATA):
        m.copy(name)
        os.utime(m.file(name), (1e9, 1e9))
        os.utime(m.file("."), (1e9, 1e9))
        m.pause()
    m.comes()


def under_names_for_the_time_being(m):
    """rsync writes each file under a temporary name and renames it."""
    for name in (PB, INDEX, DATA):
        head, tail = os.path.split(m.file(name))
        m.copy(name, os.path.join(head, f".{tail}.Xy7"))
        m.pause()
        os.rename(os.path.join(head, f".{tail}.Xy7"), m.file(name))
    m.comes()


def a_directory_that_is_no_number_yet(m):
    shutil.copytree(SOURCE, os.path.join(m.path, "2.tmp"))
    m.pause(1.5)
    assert 2 not in m.server.states(m.name)
    m.whole = True
    os.rename(os.path.join(m.path, "2.tmp"), m.file("", "00000002"))
    m.comes()


def a_link_to_a_version(m):
    shutil.copytree(SOURCE, m.aside)
    m.whole = True
    os.symlink(m.aside, m.file("")[:-1])
    m.comes()


def a_link_to_a_directory_that_fills(m):
    os.makedirs(m.aside)
    os.symlink(m.aside, m.file("")[:-1])
    for name in (PB, DATA, INDEX):
        m.pause()
        m.copy(name, os.path.join(m.aside, name))
    m.comes()


def a_link_that_leads_nowhere_yet(m):
    os.symlink(m.aside, m.file("")[:-1])
    m.pause(1.5)
    shutil.copytree(SOURCE, m.aside + ".tmp")
    m.whole = True
    os.rename(m.aside + ".tmp", m.aside)
    m.comes()


def as_kubernetes_mounts(m):
    """Kubernetes mounts a link `..data` to a directory, and replaces it by a link to the next
    directory."""
    old, new = m.path + "/..old", m.path + "/..new"
    os.makedirs(old)
    os.symlink("..old", m.path + "/..data")
    os.symlink("..data/2", m.path + "/2")
    m.pause(1.2)
    shutil.copytree(SOURCE, new + "/2")
    os.symlink("..new", m.path + "/..tmp")
    m.whole = True
    os.rename(m.path + "/..tmp", m.path + "/..data")
    m.comes()


def hard_links_one_by_one(m):
    shutil.copytree(SOURCE, m.aside)
    os.makedirs(m.file("variables"))
    for name in (PB, INDEX, DATA):
        m.pause()
        os.link(os.path.join(m.aside, name), m.file(name))
    m.comes()


def a_graph_of_nonsense_that_is_put_right(m):
    os.makedirs(m.file("variables"))
    for name in (DATA, INDEX):
        m.copy(name)
    with open(m.file(PB), "wb") as file:
        file.write(b"\x0a\xff\xff\xff\xff\x0f not a graph")
    m.fails()
    m.copy(PB)
    m.comes()


def a_graph_cut_short(m):
    for name in (DATA, INDEX, PB):
        m.copy(name)
    os.truncate(m.file(PB), os.path.getsize(m.file(PB)) // 2)
    m.fails()
    m.copy(PB)
    m.comes()


def a_file_where_a_version_should_be(m):
    with open(m.file("")[:-1], "wb") as file:
        file.write(b"no directory")
    m.fails()
    os.unlink(m.file("")[:-1])
    shutil.copytree(SOURCE, m.aside)
    m.whole = True
    os.rename(m.aside, m.file(""))
    m.comes()


def deleted_before_it_is_loaded(m):
    def is_so():  # If the version was loaded before its removal, the case is tried again.
        m.whole = True
        for name in (PB, INDEX, DATA):
            m.copy(name)
        wait_for(lambda: m.server.state(m.name, 2) in ("START", "AVAILABLE"), "it to be seen")
        shutil.rmtree(m.file(""))
        wait_for(lambda: m.server.state(m.name, 2) == "END", "its end")
        wait_for(lambda: m.ask() == OLD, "the old version")
        return "not wanted" in m.server.states(m.name)[2][1]
    wait_for(is_so, "an end before the load")
    m.whole = False
    m.pause()
    shutil.copytree(SOURCE, m.aside)
    m.whole = True
    os.rename(m.aside, m.file(""))
    m.comes()


def deleted_and_made_again_and_again(m):
    """After any load, the version that is served must be complete."""
    m.whole = True
    for i in range(8):
        shutil.copytree(SOURCE, m.aside)
        os.rename(m.aside, m.file(""))
        m.pause(0.2 * i)
        os.rename(m.file(""), m.aside)
        shutil.rmtree(m.aside)
    wait_for(lambda: m.ask() == OLD, "the old version to be back")
    shutil.copytree(SOURCE, m.aside)
    os.rename(m.aside, m.file(""))
    m.comes()


def cut_short_while_it_serves(m):
    """A loaded version is in memory, so changes to its files do not matter."""
    shutil.copytree(SOURCE, m.aside)
    m.whole = True
    os.rename(m.aside, m.file(""))
    m.comes()
    for name in (DATA, INDEX, PB):
        os.truncate(m.file(name), 0)
    for _ in range(20):
        assert m.ask() == NEW
        time.sleep(0.1)


def the_base_path_goes_away_for_a_while(m):
    os.rename(m.path, m.aside)
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        # any response is accepted, because the model may disappear with its folder
        m.server.request(f"/v1/models/{m.name}")
        time.sleep(0.1)
    os.rename(m.aside, m.path)
    shutil.copytree(SOURCE, m.aside)
    m.whole = True
    os.rename(m.aside, m.file(""))
    wait_for(lambda: m.server.state(m.name, 2) == "AVAILABLE", "the version")
    assert m.ask() == NEW


def many_versions_at_once(m):
    m.whole = True
    for version in range(2, 12):
        shutil.copytree(SOURCE, f"{m.aside}.{version}")
        os.rename(f"{m.aside}.{version}", m.file("", str(version)))
    m.comes(11)
    wait_for(lambda: all(state == "END" for v, (state, _) in m.server.states(m.name).items()
                         if v != 11), "the others to end")


CASES = [renamed_into_place, slowly_with_the_graph_last, out_of_order_with_the_index_last,
         the_graph_without_its_variables, data_that_grows, data_of_full_size_that_is_still_zeros,
         old_times_on_new_files, under_names_for_the_time_being, a_directory_that_is_no_number_yet,
         a_link_to_a_version, a_link_to_a_directory_that_fills, a_link_that_leads_nowhere_yet,
         as_kubernetes_mounts, hard_links_one_by_one, a_graph_of_nonsense_that_is_put_right,
         a_graph_cut_short, a_file_where_a_version_should_be, deleted_before_it_is_loaded,
         deleted_and_made_again_and_again, cut_short_while_it_serves,
         the_base_path_goes_away_for_a_while, many_versions_at_once]


class Copies(Case):
    def test_a_partial_version_is_never_served(self):
        for case in CASES:
            self.put(f"models/{case.__name__}/1", "half_plus_two/1")
        failures = []
        with Server(f"--models={self.path('models')}") as server:
            for case in CASES:
                wait_for(lambda c=case: server.predict(c.__name__, [1.0]) == [OLD], "a model")

            def run(case):
                try:
                    case(Model(self, server, case.__name__))
                except Exception as failure:  # pylint: disable=broad-except
                    failures.append(f"{case.__name__}: {type(failure).__name__}: {failure}")

            threads = [threading.Thread(target=run, args=(case,)) for case in CASES]
            for t in threads:
                t.start()
            for t in threads:
                t.join(120 * SLOW)
            self.assertEqual(failures, [])
            self.assertIsNone(server.process.poll(), server.log())
