// Binding of rows of integers: tables whose numbers are all integer multiples of one step.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "bindings/binding.hpp"
#include "gram/tile_request.hpp"
#include "parallel/parallel.hpp"

namespace mercer {
namespace {

constexpr int64_t kRowsAtATime = 64;

struct IntegerJob {
    const AnyMatrix& table;
    const Scalar scalar;
    const IntegerRow row;
    const double step;
    const bool bytes;
    int32_t* const units;
    const int64_t stride;
    std::atomic<bool> are_integers{true};
};

void integer_rows_task(void* context, int64_t task) {
    auto& job = *static_cast<IntegerJob*>(context);
    const auto n = static_cast<int64_t>(job.table.shape(0)), p = static_cast<int64_t>(job.table.shape(1));
    const int64_t size = job.scalar == Scalar::f32 ? sizeof(float) : sizeof(double);
    for (int64_t i = task * kRowsAtATime; i < std::min(n, (task + 1) * kRowsAtATime) && job.are_integers.load(); ++i) {
        const char* row = static_cast<const char*>(job.table.data()) + i * job.table.stride(0) * size;
        if (!job.row(row, job.scalar, job.table.stride(1), p, job.step, job.bytes, job.units + i * job.stride))
            job.are_integers.store(false);
    }
}

nb::object integer_rows(const std::string& isa, AnyMatrix table, double step, bool bytes, int n_threads) {
    const IntegerRow row = implementation(isa).integer_row;
    require(row != nullptr, "this instruction set has no tiles of integers");
    require(is_step(step), kStepProblem);
    const auto n = static_cast<int64_t>(table.shape(0)), p = static_cast<int64_t>(table.shape(1));
    const int64_t stride = units_of(p, bytes) + kRowSums;
    const Scalar scalar = scalar_of(table.dtype());
    std::vector<int32_t> units(static_cast<std::size_t>(n * stride));
    IntegerJob job{table, scalar, row, step, bytes, units.data(), stride};
    {
        const ReleasedGil released;
        parallel_for((n + kRowsAtATime - 1) / kRowsAtATime, n_threads, integer_rows_task, &job);
    }
    if (!job.are_integers.load()) return nb::none();
    return nb::cast(owned_as(std::move(units), static_cast<std::size_t>(n), static_cast<std::size_t>(stride)));
}

}  // namespace

void bind_integer_form(nb::module_& m) {
    m.def("integer_rows", &integer_rows, nb::arg("isa"), nb::arg("table").noconvert(), nb::arg("step"),
          nb::arg("bytes"), nb::arg("n_threads"));
}

}  // namespace mercer
