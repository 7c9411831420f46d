// Binding of rows of whole numbers: tables whose numbers are multiples of one step.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "mercer/binding.hpp"
#include "mercer/parallel.hpp"
#include "mercer/tile_request.hpp"

namespace mercer {
namespace {

constexpr int64_t kRowsAtATime = 64;

struct WholeJob {
    const AnyMatrix& table;
    const Scalar scalar;
    const WholeRow row;
    const double step;
    const bool bytes;
    int32_t* const units;
    const int64_t stride;
    std::atomic<bool> are_whole{true};
};

void whole_rows_task(void* context, int64_t task) {
    auto& job = *static_cast<WholeJob*>(context);
    const auto n = static_cast<int64_t>(job.table.shape(0)), p = static_cast<int64_t>(job.table.shape(1));
    const int64_t size = job.scalar == Scalar::f32 ? sizeof(float) : sizeof(double);
    for (int64_t i = task * kRowsAtATime; i < std::min(n, (task + 1) * kRowsAtATime) && job.are_whole.load(); ++i) {
        const char* row = static_cast<const char*>(job.table.data()) + i * job.table.stride(0) * size;
        if (!job.row(row, job.scalar, job.table.stride(1), p, job.step, job.bytes, job.units + i * job.stride))
            job.are_whole.store(false);
    }
}

nb::object whole_rows(const std::string& isa, AnyMatrix table, double step, bool bytes, int n_threads) {
    const WholeRow row = implementation(isa).whole_row;
    require(row != nullptr, "this instruction set has no tiles of whole numbers");
    require(kLeastStep <= step && step <= 1.0 / kLeastStep, "the step must be between 2^-40 and 2^40");
    const auto n = static_cast<int64_t>(table.shape(0)), p = static_cast<int64_t>(table.shape(1));
    const int64_t stride = units_of(p, bytes) + kWholeNumbers;
    const Scalar scalar = scalar_of(table.dtype());
    std::vector<int32_t> units(static_cast<std::size_t>(n * stride));
    WholeJob job{table, scalar, row, step, bytes, units.data(), stride};
    {
        nb::gil_scoped_release release;
        parallel_for((n + kRowsAtATime - 1) / kRowsAtATime, n_threads, whole_rows_task, &job);
    }
    if (!job.are_whole.load()) return nb::none();
    return nb::cast(owned_as(std::move(units), static_cast<std::size_t>(n), static_cast<std::size_t>(stride)));
}

}  // namespace

void bind_whole_form(nb::module_& m) {
    m.def("whole_rows", &whole_rows, nb::arg("isa"), nb::arg("table").noconvert(), nb::arg("step"), nb::arg("bytes"),
          nb::arg("n_threads"));
}

}  // namespace mercer
