"""The .stw file: loading restores what was saved; damaged files and those for another machine are refused."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from stepwell.runtime import processor
from stepwell.runtime.artefact import linker, reader, writer
from stepwell.runtime.compiled_model import CompiledModel
from stepwell.runtime.executable import Executable
from stepwell.runtime.memory import is_splat
from stepwell.runtime.native import loader
from stepwell.runtime.program import CodeTarget
from stepwell.support.errors import ArtefactError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(params=["library", "objects"])
def saved(request, tmp_path, program, monkeypatch) -> Path:
    """A saved model, with its code as a shared library or as objects."""
    if request.param == "objects":
        monkeypatch.setattr(linker.shutil, "which", lambda name: None)
    elif linker.shutil.which("cc") is None:
        pytest.skip("no linker here")
    path = tmp_path / "model.stw"
    made = program()
    # The second output, a number of threads, is not 0, so it is a guard that holds.
    guarded = replace(made, outputs=made.outputs[:1], guards=("no threads",))
    Executable(CompiledModel(made.inputs[:1], made.outputs[:1], [guarded], name="tiny")).save(path)
    return path


def load(path: Path) -> Executable:
    model = reader.read(path)
    return Executable(CompiledModel(model.inputs, model.outputs, model.programs, source=model.source, name=model.name))


def rewrite(path: Path, change) -> None:
    """Rewrites the artefact after `change` has modified its members (a dict of bytes by name)."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def change_manifest(**entries):
    def change(members):
        members["manifest.json"] = json.dumps(json.loads(members["manifest.json"]) | entries).encode()

    return change


def test_a_model_comes_back(saved, reference):
    back = load(saved)
    np.testing.assert_array_equal(back(X), reference(X))
    (made,) = back.programs
    assert back.name == "tiny" and made.kernels[0].ops == ("Mul_1", "Add_2")
    assert is_splat(made.parameters["bias"])
    assert made.parameters["scale"].ctypes.data % 64 == 0 and not made.parameters["scale"].flags.writeable


def test_equal_models_give_equal_bytes(saved, tmp_path):
    load(saved).save(tmp_path / "again.stw")
    load(saved).save(tmp_path / "third.stw")
    assert (tmp_path / "again.stw").read_bytes() == (tmp_path / "third.stw").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.stw", "model.stw", "third.stw"]


def test_parameters_are_stored_once_and_others_can_read_them(tmp_path, program):
    first = program()
    second = replace(program(3, 2), parameters=first.parameters)
    path = tmp_path / "model.stw"
    source = reader.ArtefactSource("onnx", b"model")
    Executable(CompiledModel(first.inputs, first.outputs, [first, second], source=source)).save(path, keep_model=True)
    with zipfile.ZipFile(path) as archive:
        tensors = safetensors.numpy.load(archive.read("parameters.safetensors"))
    assert sorted(item.shape for name, item in tensors.items() if not name.startswith(".pad")) == [(), (2, 3)]
    assert reader.read(path).source == source
    load(path).save(path)
    assert reader.read(path).source is None
    with pytest.raises(ArtefactError, match="does not exist as one file"):
        load(path).save(path, keep_model=True)


def test_every_flipped_byte_is_harmless_or_refused(saved, tmp_path):
    image, whole = saved.read_bytes(), reader.read(saved)
    copy = tmp_path / "flipped.stw"
    for place in range(0, len(image), max(1, len(image) // 400)):
        copy.write_bytes(image[:place] + bytes([image[place] ^ 0x55]) + image[place + 1 :])
        try:
            back = reader.read(copy)
        except ArtefactError:
            continue
        assert (back.inputs, back.programs[0].objects, back.programs[0].library) == (
            whole.inputs,
            whole.programs[0].objects,
            whole.programs[0].library,
        ), place


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9, 0.999])
def test_truncated_files_are_refused(saved, keep):
    image = saved.read_bytes()
    saved.write_bytes(image[: int(keep * len(image))])
    with pytest.raises(ArtefactError, match=r"empty|cut short"):
        reader.read(saved)


def test_a_file_may_be_truncated_once_it_is_loaded(saved):
    """A mapped file would crash the process here; parameters are therefore read with system calls."""
    executable = load(saved)
    wanted = executable(X)
    again = load(saved)
    os.truncate(saved, 0)
    np.testing.assert_array_equal(again(X), wanted)


def test_without_room_to_link_objects_are_stored(tmp_path, program, monkeypatch):
    if linker.shutil.which("cc") is None:
        pytest.skip("no linker here")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(linker.tempfile, "TemporaryDirectory", full)
    made = program()
    with pytest.warns(UserWarning, match="the artefact has objects, not a library: .*No space left"):
        Executable(CompiledModel(made.inputs, made.outputs, [made], name="tiny")).save(tmp_path / "model.stw")
    (stored,) = reader.read(tmp_path / "model.stw").programs
    assert stored.library is None and stored.objects


def test_libraries_are_loaded_from_files_where_there_is_no_proc(saved, monkeypatch):
    wanted = load(saved)(X)
    monkeypatch.setattr(loader, "_OPEN_FILES", "/nowhere")
    np.testing.assert_array_equal(load(saved)(X), wanted)


def test_a_changed_parameter_is_refused(saved):
    def change(members):
        data = members["parameters.safetensors"]
        members["parameters.safetensors"] = data[:-1] + bytes([data[-1] ^ 1])

    rewrite(saved, change)
    with pytest.raises(ArtefactError, match=r"parameters\.safetensors is damaged"):
        reader.read(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_manifest(schema=99), "its schema is 99, and this version of Stepwell reads schema 11"),
        (change_manifest(programs=[{}]), "its manifest does not match schema 11"),
        (change_manifest(training={"batch": [], "trained": [], "state": []}), r"schema 11: KeyError\('updates'\)"),
        (change_manifest(inputs=[{"name": "x", "dtype": "float13", "shape": []}]), "'float13' is not an element type"),
        (change_manifest(inputs=[{"name": "x", "dtype": "float32", "shape": [-1]}]), "does not match schema"),
        (lambda members: members.pop("manifest.json"), "not a Stepwell artefact"),
        (lambda members: members.update({"extra.bin": b"x"}), "differ from those in the manifest: extra.bin"),
        (lambda members: members.update({"../evil": b"x"}), "'../evil' has a path that leaves the archive"),
        (lambda members: members.update({"/evil": b"x"}), "leaves the archive"),
        (lambda members: members.update({"manifest.json": b"[]"}), "its manifest does not match schema 11"),
    ],
)
def test_altered_files_are_refused(saved, change, message):
    rewrite(saved, change)
    with pytest.raises(ArtefactError, match=message):
        reader.read(saved)


def test_lying_sizes_are_refused(tmp_path, program):
    made = program()
    path = tmp_path / "model.stw"
    Executable(CompiledModel(made.inputs, made.outputs, [made])).save(path)
    image = path.read_bytes()
    true = len(reader.read(path).programs[0].library or next(iter(reader.read(path).programs[0].objects.values())))
    for lie in (true + 1, 0xFFFFFFF0):
        path.write_bytes(image.replace(true.to_bytes(4, "little") * 2, lie.to_bytes(4, "little") * 2))
        with pytest.raises(ArtefactError):
            reader.read(path)


def test_compressed_members_are_refused(saved):
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ArtefactError, match="is compressed; artefacts store members uncompressed"):
        reader.read(saved)


def test_other_machines_code_is_refused(tmp_path, program, monkeypatch):
    path = tmp_path / "model.stw"
    made = program(cpu="x86-64-v3", features=("+avx512f", "-amx-tile", "+64bit"))
    Executable(CompiledModel(made.inputs, made.outputs, [made])).save(path)
    monkeypatch.setattr(processor, "features", lambda: frozenset({"avx2", "fma"}))
    with pytest.raises(
        ArtefactError, match=r"does not run on this machine: code for x86-64-v3 .* needs avx, avx512f, bmi"
    ):
        reader.read(path)
    monkeypatch.setattr(processor, "architecture", lambda: "riscv64")
    with pytest.raises(ArtefactError, match="this is riscv64-linux"):
        reader.read(path)


def test_the_best_level_that_runs_is_chosen(tmp_path, program, monkeypatch):
    path = tmp_path / "model.stw"
    levels = [program(cpu=cpu) for cpu in ("x86-64-v4", "x86-64", "x86-64-v3")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linker.shutil, "which", lambda name: None)
        model = reader.Artefact("m", levels[0].inputs, levels[0].outputs, tuple(levels))
        writer.write(path, model)
    assert len([name for name in zipfile.ZipFile(path).namelist() if name.endswith(".o")]) == 1
    plain = frozenset(name.replace(".", "") for name in processor.LEVELS["x86-64-v3"])
    for here, best in ((plain, "x86-64-v3"), (frozenset(), "x86-64")):
        monkeypatch.setattr(processor, "features", lambda here=here: here)
        assert [made.target.cpu for made in reader.read(path).programs] == [best]


def test_this_machine_has_its_own_features():
    features = processor.features()
    assert features is None or features


def test_a_missing_folder_is_an_error(tmp_path, program):
    made = program()
    with pytest.raises(ArtefactError, match="cannot be written: No such file"):
        Executable(CompiledModel(made.inputs, made.outputs, [made])).save(tmp_path / "missing" / "model.stw")
    with pytest.raises(ArtefactError, match="No such file"):
        reader.read(tmp_path / "missing.stw")


def test_a_link_stays_a_link_and_special_files_stay_as_they_are(tmp_path, program):
    made = program()
    executable = Executable(CompiledModel(made.inputs, made.outputs, [made]))
    (tmp_path / "link.stw").symlink_to("model.stw")
    executable.save(tmp_path / "link.stw")
    assert (tmp_path / "link.stw").is_symlink() and load(tmp_path / "model.stw").inputs == made.inputs
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(ArtefactError, match="cannot be written"):
        executable.save(tmp_path / "pipe")
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("name", ["/", "a\0b"])
def test_names_that_no_file_can_have(program, name):
    made = program()
    with pytest.raises(ArtefactError):
        Executable(CompiledModel(made.inputs, made.outputs, [made])).save(name)
    with pytest.raises(ArtefactError):
        load(Path(name))


def test_every_checked_feature_of_a_level_is_known(monkeypatch):
    monkeypatch.setattr(processor, "features", lambda: frozenset())
    for cpu, features in processor.LEVELS.items():
        assert processor.missing(CodeTarget("x86_64-unknown-linux-gnu", cpu)) == sorted(features)
