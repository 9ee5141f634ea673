"""The processor's facts from a list like the kernel's."""

from __future__ import annotations

from everybit.host.cpu import read_cpu

CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+
stepping\t: 8
microcode\t: 0x2b0004b1
flags\t\t: fpu avx2 fma avx512f amx_tile

processor\t: 1
model name\t: another
"""


def test_the_first_processor_is_read(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text(CPUINFO)
    facts = read_cpu(path)
    assert facts["model"] == "Intel(R) Xeon(R) Platinum 8480+"
    assert (facts["family"], facts["model_number"], facts["stepping"]) == ("6", "143", "8")
    assert facts["microcode"] == "0x2b0004b1"
    assert facts["kernel_flags"] == ["amx_tile", "avx2", "avx512f", "fma"]
    path.write_text(CPUINFO.replace("amx_tile", "amx_tile hidden_flag"))
    assert read_cpu(path)["flags_digest"] != facts["flags_digest"]


def test_without_a_list_the_rest_is_told(tmp_path):
    facts = read_cpu(tmp_path / "missing")
    assert facts["machine"]
    assert facts["num_cpus"] >= 1
