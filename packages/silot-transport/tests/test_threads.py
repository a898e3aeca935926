import pytest
from threadpoolctl import threadpool_info

from silot_transport._threads import on_cores, one_blas_thread


def blas_threads() -> list[int]:
    return [int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_is_limited_until_the_last_user_leaves() -> None:
    before = blas_threads()
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(blas_threads()) == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_results_of_several_cores_are_those_of_one_in_order() -> None:
    items = list(range(100))
    assert on_cores(lambda k: k * k, items) == [k * k for k in items]
    with pytest.raises(ZeroDivisionError):
        on_cores(lambda k: 1 / k, items)
