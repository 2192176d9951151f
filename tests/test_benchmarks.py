"""The cost model of benchmarks/scaling.py against figures worked out by hand, and its page."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Render

sys.path.append(str(ROOT / "benchmarks"))

import growth
import pages
import scaling
from scaling import Link

LINK = Link(bandwidth=1e9, latency=1e-3)


def test_a_ring_sends_twice_all_parts_but_one() -> None:
    # 6 messages of 2 MB: 6 x (1 ms + 2 ms).
    assert scaling.ring(8e6, 4, LINK) == pytest.approx(0.018)
    assert scaling.ring(8e6, 1, LINK) == 0
    # For many workers twice the time to send everything, and all the latencies.
    assert scaling.ring(1e9, 1001, LINK) == pytest.approx(2 * 1000 / 1001 + 2)


def test_a_hierarchy_adds_hosts_to_rings_of_hosts() -> None:
    # Inside: 6 messages of 2 MB at 10 GB/s; between two hosts: 2 messages of 4 MB and 1 ms.
    inside = Link(1e10, 0)
    assert scaling.hierarchical(8e6, 2, 4, inside, LINK) == pytest.approx(0.0012 + 0.010)


def test_buckets_are_sent_while_the_backward_pass_goes_on() -> None:
    def sum_secs(num_bytes: float) -> float:
        return num_bytes  # the count takes 4 s

    # Forward 1 s, backward 2 s, sum 4 s.
    assert scaling.step(3, 4, sum_secs) == pytest.approx(4 + 3 + 4)
    # Ready after 1.5, 2, 2.5 and 3 s; sent after 2.5, 3.5, 4.5 and 5.5 s.
    assert scaling.step(3, 4, sum_secs, bucket_bytes=1) == pytest.approx(4 + 5.5)


def test_the_fit_finds_the_link_that_made_the_times() -> None:
    times = {
        (workers, size): scaling.contention(workers, 2) * scaling.ring(size, workers, LINK)
        for workers in (2, 3, 4)
        for size in (10**3, 10**6)
    }
    assert scaling.fit(times, 2) == pytest.approx(LINK)


def test_the_page_has_the_tables_of_the_measurements() -> None:
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")
    results = json.loads(scaling.RESULTS.read_text())
    texts = {
        "measured": scaling.describe_fit(results),
        "buckets": scaling.describe_buckets(results),
        "sums": scaling.for_each_model(scaling.predict_sums),
        "efficiency": scaling.for_each_model(scaling.predict_efficiency),
        "thresholds": scaling.predict_thresholds(),
    }
    for name, text in texts.items():
        page = pages.replaced(page, name, text)
    assert page == (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8")


@pytest.mark.environment
def test_the_page_of_data_says_what_was_measured_and_what_was_missed() -> None:
    import data

    page = (ROOT / "benchmarks" / "data.md").read_text(encoding="utf-8")
    results = json.loads((ROOT / "benchmarks" / "data.json").read_text())
    assert page == data.page(results)
    assert growth.describe_limit(1.0, {"anonymous": 1.032}) == "1.0 without pages: missed by 0.03"
    assert growth.describe_limit(1.0, {"anonymous": 1.004}) == "1.0 without pages"


@pytest.mark.environment
@pytest.mark.full
def test_what_grows_is_seen_over_epochs(render: Render, tmp_path: Path) -> None:
    project = shutil.copytree(render(package_name="bench_project"), tmp_path / "project")
    seen = growth.child(project, "train", 0, 6)
    assert 0 < seen["traces 1"] == seen["traces 5"] == seen["traces 6"]
    assert 0 < seen["memory 5"] < 1.05 * seen["memory 1"]


def test_a_table_needs_its_markers() -> None:
    with pytest.raises(ValueError, match="once each"):
        pages.replaced("<!-- a -->", "a", "text")
