"""What a node has and what a Pod takes, counted as bounds: what cannot be counted bounds nothing."""

from gpustack_ctl.controllers.rooms import amounts, requests_of


def test_cpu_is_counted_in_millicores_and_all_else_in_whole_numbers() -> None:
    assert amounts({"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2"}) == {
        "cpu": 1500,
        "memory": 1 << 30,
        "nvidia.com/gpu": 2,
    }


def test_what_is_no_whole_number_is_left_out() -> None:
    assert amounts({"memory": "1500m", "nvidia.com/gpu": "none"}) == {}


def test_a_pods_containers_are_added_and_limits_stand_in_for_requests() -> None:
    containers = [
        {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}}},
        {"resources": {"limits": {"cpu": "500m"}}},
        {},
    ]
    assert requests_of({"containers": containers}) == {"cpu": 1500, "nvidia.com/gpu": 1}


def test_nothing_asked_is_nothing_counted() -> None:
    assert requests_of({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "0"}}}]}) == {}
