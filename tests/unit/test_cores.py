"""How many processors a process may use, from files as Linux has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie.config.cores import cores_within, usable_cores

GROUPS = "sys/fs/cgroup"


def linux(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/a/b\n", {"a/cpu.max": "100000 100000\n", "a/b/cpu.max": "400000 100000\n"}, 1),
        # the path of the host, while the container sees its own group as the root
        ("0::/docker/123\n", {"cpu.max": "300000 100000\n"}, 3),
        ("0::/../x\n", {"cpu.max": "10000 100000\n"}, 1),
        (
            "4:memory:/m\n3:cpu,cpuacct:/c\n0::/\n",
            {"cpu/c/cpu.cfs_quota_us": "250000\n", "cpu/c/cpu.cfs_period_us": "100000\n"},
            3,
        ),
        ("2:cpu:/c\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ("2:cpu:/c\n", {"cpu/c/cpu.cfs_quota_us": "", "cpu/c/cpu.cfs_period_us": "100000\n"}, 8),
        ("0::/\n", {"cpu.max": "0 0\n"}, 8),
        ("nonsense", {"cpu.max": "nonsense"}, 8),
    ],
)
def test_a_quota_counts_with_those_above_it(
    tmp_path: Path, groups: str, files: dict[str, str], expected: int
) -> None:
    given = {"proc/self/cgroup": groups, **{f"{GROUPS}/{name}": text for name, text in files.items()}}
    assert cores_within(8, linux(tmp_path, given)) == expected


def test_the_processors_that_the_process_is_scheduled_on_are_the_most(tmp_path: Path) -> None:
    given = {"proc/self/cgroup": "0::/\n", f"{GROUPS}/cpu.max": "800000 100000\n"}
    assert cores_within(2, linux(tmp_path, given)) == 2


def test_another_system(tmp_path: Path) -> None:
    assert cores_within(4, tmp_path) == 4
    assert usable_cores() >= 1
