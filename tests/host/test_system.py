"""System, container, mounts, lock files, NCCL's files, loaded libraries."""

from __future__ import annotations

from pathlib import Path

from everybit.host.loaded import read_libraries
from everybit.host.lock_files import read_lock_files
from everybit.host.nccl import read_nccl
from everybit.host.system import read_container, read_mounts, read_system


def test_the_distribution_is_read(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "os-release").write_text('ID=debian\nVERSION_ID="12"\nNAME="x"\n')
    found = read_system(tmp_path)
    assert (found["distribution"], found["release"]) == ("debian", "12")
    assert found["kernel"]


def test_containers(tmp_path):
    assert "absent" in read_container(tmp_path, {})
    (tmp_path / ".dockerenv").touch()
    assert read_container(tmp_path, {"CUDA_VERSION": "12.8"}) == {
        "engine": "docker",
        "cuda_version": "12.8",
    }
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".containerenv").write_text(
        'engine="podman-4"\nname="job"\nid="abc"\nimage="nvcr.io/x:25.01"\nimageid="def"\n'
    )
    assert read_container(tmp_path, {}) == {
        "engine": "podman-4",
        "id": "abc",
        "image": "nvcr.io/x:25.01",
        "image_id": "def",
    }


def test_the_name_of_an_image_file_is_kept_and_its_place_is_not(tmp_path):
    found = read_container(tmp_path, {"APPTAINER_CONTAINER": "/home/me/torch.sif"})
    assert found == {"engine": "apptainer", "image": "torch.sif"}


_MOUNTS = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 0:50 / /data ro,noatime shared:1 - nfs4 me@10.0.0.7:/export rw,vers=4.2,sec=sys,addr=10.0.0.7
41 27 0:51 / /data/my\040set rw - fuse.x //user:secret@server/s rw
"""


def test_mounts_tell_type_and_options_and_no_address(tmp_path):
    info = tmp_path / "mountinfo"
    info.write_text(_MOUNTS)
    found = read_mounts(Path("/data/images"), info)
    assert found["type"] == "nfs4"
    assert found["options"] == ["noatime", "ro", "rw", "vers=4.2"]
    assert found["points"] == {"/data": "nfs4", "/data/my set": "fuse.x"}
    assert read_mounts(Path("/database"), info)["type"] == "ext4"
    assert not any(word in str(found) for word in ("10.0.0.7", "secret", "user", "export"))
    assert "unknown" in read_mounts(Path("/"), tmp_path / "none")


def test_lock_files_are_digests_of_the_nearest_folder(tmp_path):
    (tmp_path / "uv.lock").write_text("a\nb\n")
    inside = tmp_path / "src" / "pkg"
    inside.mkdir(parents=True)
    (digest,) = read_lock_files(inside).values()
    (tmp_path / "uv.lock").write_bytes(b"a\r\nb  \r\n")
    assert read_lock_files(inside) == {"uv.lock": digest}
    (tmp_path / "uv.lock").write_text("a\nc\n")
    assert read_lock_files(inside) != {"uv.lock": digest}
    (tmp_path / "src" / ".git").mkdir()
    assert "absent" in read_lock_files(inside)


def test_nccls_files_and_their_order(tmp_path):
    system, own = tmp_path / "nccl.conf", tmp_path / "own.conf"
    system.write_text("NCCL_PROTO=Simple\nNCCL_ALGO = Ring # why\nNCCL_AUTH_TOKEN=x\nHOME=y\n")
    own.write_text("NCCL_PROTO=LL\n")
    found = read_nccl({"NCCL_CONF_FILE": str(own)}, system)
    assert found == {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"}
    assert "absent" in read_nccl({"HOME": str(tmp_path)}, tmp_path / "none")


def test_loaded_libraries_by_kind(tmp_path):
    maps = tmp_path / "maps"
    line = "7f00-7f01 r--p 0 fe:00 1   /x/{}\n"
    names = ("libgomp-a34b3233.so.1", "libiomp5.so", "libc.so.6", "libgomp-a34b3233.so.1")
    maps.write_text("".join(line.format(name) for name in names))
    assert read_libraries(maps) == {"gomp": ["libgomp-a34b3233.so.1"], "iomp5": ["libiomp5.so"]}
    assert "unknown" in read_libraries(tmp_path / "none")
