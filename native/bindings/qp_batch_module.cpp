// Bindings of the batch solver, which solves many small problems in one call.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "bindings/binding.hpp"
#include "bindings/stop.hpp"
#include "dual/qp_batch.hpp"
#include "gram/tile_request.hpp"

namespace mercer {
namespace {

using Pairs = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Returns the machines of a batch. Their variables are numbered consecutively, machine by machine.
std::vector<Machine> make_machines(const ConstIndices& part_starts, const Pairs& pairs) {
    const int64_t n_parts = static_cast<int64_t>(part_starts.shape(0)) - 1;
    require(n_parts >= 0 && pairs.shape(1) == 2 && part_starts.data()[0] == 0 &&
                std::is_sorted(part_starts.data(), part_starts.data() + n_parts + 1),
            "part_starts must rise from 0, and a machine must have two parts or one and -1");
    auto size = [&](int64_t part) { return part_starts.data()[part + 1] - part_starts.data()[part]; };
    std::vector<Machine> machines;
    int64_t offset = 0;
    for (std::size_t m = 0; m < pairs.shape(0); ++m) {
        const int64_t first = pairs.data()[2 * m], second = pairs.data()[2 * m + 1];
        require(first >= 0 && first < n_parts && second >= -1 && second < n_parts, "parts must exist");
        machines.push_back({offset, size(first) + (second < 0 ? 0 : size(second)), first, second});
        offset += machines.back().size;
    }
    return machines;
}

int64_t machines_workspace(ConstIndices part_starts, Pairs pairs, int64_t exact_size, int64_t double_size,
                           int64_t whole_size, int n_threads) {
    const std::vector<Machine> machines = make_machines(part_starts, pairs);
    return machine_workspace(machines.data(), static_cast<int64_t>(machines.size()),
                             {exact_size, double_size, whole_size}, std::max(1, n_threads));
}

// The rows of each part of the data, and the machines on them. `shared` are the concatenated matrices of each part with
// itself, and `diagonal` is that of the matrix of all rows.
struct MachineParts {
    ConstIndices rows, part_starts;
    Pairs pairs;
    std::optional<ConstDoubles> diagonal;
    std::optional<Doubles> shared;
    bool fill_shared;
};

// The problems of a batch, one after the other; solutions are written into `beta` and `values`.
struct MachineVariables {
    ConstDoubles start, linear, lower, upper;
    Doubles beta, values;

    bool have(int64_t size) const {
        const auto is_sized = [size](const auto& array) { return static_cast<int64_t>(array.shape(0)) == size; };
        return is_sized(start) && is_sized(linear) && is_sized(lower) && is_sized(upper) && is_sized(beta) &&
               is_sized(values);
    }
};

// The limits of each problem, the sizes up to which a matrix is used, and the work of a call.
struct MachineLimits {
    bool grouped;
    double tol;
    int64_t max_iter, exact_size, double_size, whole_size;
    double value_work, work_limit;
};

// Columns of the result table, which has a row for each machine: end, n_iter, n_values, seconds (their sum is the
// duration of the call), longest, spread, largest, multiplier, primal, the conditions, newton_free.
constexpr std::size_t kMachineNumbers = 17;
using MachineTable = nb::ndarray<nb::numpy, double, nb::ndim<2>>;

MachineTable machines(const std::string& isa, const CompiledKernel& kernel, const Table& table,
                      std::optional<ConstDoubles> centre, const MachineParts& parts, const MachineVariables& variables,
                      const MachineLimits& limits, Doubles workspace, int n_threads, nb::object stop) {
    const auto& [rows, part_starts, pairs, diagonal, shared, fill_shared] = parts;
    const std::vector<Machine> list = make_machines(part_starts, pairs);
    const int64_t n_parts = static_cast<int64_t>(part_starts.shape(0)) - 1;
    const int64_t size = list.empty() ? 0 : list.back().offset + list.back().size;
    require(variables.have(size), "every machine must have its variables");
    require(!diagonal || static_cast<int64_t>(diagonal->shape(0)) >= part_starts.data()[n_parts],
            "the diagonal must have a number for each row");
    require(part_starts.data()[n_parts] <= static_cast<int64_t>(rows.shape(0)), "parts must be of rows");
    // Several machines: one thread for each machine. A single machine: all threads evaluate its kernel values.
    const int n_within = list.size() == 1 ? n_threads : 1;
    n_threads = std::max(1, std::min(n_threads, static_cast<int>(list.size())));
    const Implementation& native = implementation(isa);
    MachineBatch batch{make_request(native, kernel, table, rows, table, rows, centre, n_within),
                       rows.data(),
                       part_starts.data(),
                       n_parts,
                       shared ? shared->data() : nullptr,
                       fill_shared,
                       list.data(),
                       static_cast<int64_t>(list.size()),
                       diagonal ? diagonal->data() : nullptr,
                       variables.start.data(),
                       variables.linear.data(),
                       variables.lower.data(),
                       variables.upper.data(),
                       variables.beta.data(),
                       variables.values.data(),
                       limits.grouped,
                       limits.tol,
                       limits.max_iter,
                       {limits.exact_size, diagonal ? limits.double_size : std::numeric_limits<int64_t>::max(),
                        diagonal ? limits.whole_size : std::numeric_limits<int64_t>::max()},
                       limits.value_work,
                       limits.work_limit};
    Stop stopping{std::move(stop)};
    if (list.size() == 1) batch.stop = stopping.function(), batch.stop_context = &stopping;
    int64_t shared_size = 0;
    for (int64_t part = 0; part < n_parts; ++part) {
        const int64_t rows_of_part = part_starts.data()[part + 1] - part_starts.data()[part];
        shared_size += rows_of_part * rows_of_part;
    }
    require(!shared || static_cast<int64_t>(shared->shape(0)) >= shared_size, "shared must hold every part's matrix");
    require(static_cast<int64_t>(workspace.shape(0)) >=
                machine_workspace(list.data(), batch.n_machines, batch.sizes, n_threads),
            "the workspace is too small");
    std::vector<MachineResult> results(list.size());
    {
        const ReleasedGil released;
        const auto began = std::chrono::steady_clock::now();
        results.resize(
            static_cast<std::size_t>(solve_machines(native, batch, workspace.data(), n_threads, results.data())));
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
        double sum = 0.0;
        for (const MachineResult& r : results) sum += r.seconds;
        for (MachineResult& r : results)
            r.seconds *= sum > 0.0 ? elapsed.count() / sum : 1.0;  // machines run concurrently
    }
    stopping.rethrow();
    auto* numbers_of_all = new std::vector<double>;
    nb::capsule owner(numbers_of_all, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
    numbers_of_all->reserve(results.size() * kMachineNumbers);
    for (const MachineResult& r : results) {
        const Conditions& c = r.conditions;
        const auto end = static_cast<double>(static_cast<int>(r.end)), n_iter = static_cast<double>(r.n_iter),
                   n_values = static_cast<double>(r.n_values);
        const auto n_free = static_cast<double>(c.n_free), n_bounded = static_cast<double>(c.n_bounded);
        numbers_of_all->insert(
            numbers_of_all->end(),
            {end, n_iter, n_values, r.seconds, r.longest, r.spread, r.largest, r.multiplier, r.primal, c.quadratic,
             c.linear, c.mass, c.infeasibility, c.excess, n_free, n_bounded, static_cast<double>(r.newton_free)});
    }
    return MachineTable(numbers_of_all->data(), {results.size(), kMachineNumbers}, owner);
}

}  // namespace

void bind_machines(nb::module_& m) {
    m.def("machines_workspace", &machines_workspace, nb::arg("part_starts").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("exact_size"), nb::arg("double_size"), nb::arg("whole_size"), nb::arg("n_threads"));
    nb::class_<MachineParts>(m, "MachineParts")
        .def("__init__",
             &construct<MachineParts, ConstIndices, ConstIndices, Pairs, std::optional<ConstDoubles>,
                        std::optional<Doubles>, bool>,
             nb::kw_only(), nb::arg("rows").noconvert(), nb::arg("part_starts").noconvert(),
             nb::arg("pairs").noconvert(), nb::arg("diagonal").noconvert().none(), nb::arg("shared").noconvert().none(),
             nb::arg("fill_shared"));
    nb::class_<MachineVariables>(m, "MachineVariables")
        .def("__init__",
             &construct<MachineVariables, ConstDoubles, ConstDoubles, ConstDoubles, ConstDoubles, Doubles, Doubles>,
             nb::kw_only(), nb::arg("start").noconvert(), nb::arg("linear").noconvert(), nb::arg("lower").noconvert(),
             nb::arg("upper").noconvert(), nb::arg("beta").noconvert(), nb::arg("values").noconvert());
    nb::class_<MachineLimits>(m, "MachineLimits")
        .def(
            "__init__",
            [](MachineLimits* self, bool grouped, double tol, int64_t max_iter, int64_t exact_size, int64_t double_size,
               int64_t whole_size, double value_work, double work_limit) {
                require(double_size <= whole_size, "double_size must be at most whole_size");
                new (self)
                    MachineLimits{grouped, tol, max_iter, exact_size, double_size, whole_size, value_work, work_limit};
            },
            nb::kw_only(), nb::arg("grouped"), nb::arg("tol"), nb::arg("max_iter"), nb::arg("exact_size"),
            nb::arg("double_size"), nb::arg("whole_size"), nb::arg("value_work"), nb::arg("work_limit"));
    m.def("solve_machines", &machines, nb::arg("isa"), nb::arg("kernel"), nb::arg("table"), nb::kw_only(),
          nb::arg("centre").noconvert().none(), nb::arg("parts"), nb::arg("variables"), nb::arg("limits"),
          nb::arg("workspace").noconvert(), nb::arg("n_threads"), nb::arg("stop").none() = nb::none());
}

}  // namespace mercer
