// Bindings of the solvers: of a working set, and of problems whose matrix is in memory.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "bindings/binding.hpp"
#include "bindings/stop.hpp"
#include "dual/in_memory_rounds.hpp"
#include "gram/dispatch.hpp"

namespace mercer {
namespace {

using Marks = nb::ndarray<int8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Counts = nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Real>
std::tuple<int, int64_t, double> solve_block(const std::string& isa, bool newton, MatrixOf<const Real> matrix,
                                             Doubles beta, Doubles gradient, ConstDoubles lower, ConstDoubles upper,
                                             ConstIndices group_starts, double tol, int64_t max_iter, int n_threads,
                                             nb::object stop) {
    const auto size = static_cast<int64_t>(beta.shape(0));
    check_padded(matrix, size);
    require(static_cast<int64_t>(gradient.shape(0)) == size && static_cast<int64_t>(lower.shape(0)) == size &&
                static_cast<int64_t>(upper.shape(0)) == size,
            "beta, gradient, lower and upper must have the same length");
    const auto n_groups = static_cast<int64_t>(group_starts.shape(0)) - 1;
    require(n_groups >= 0 && group_starts.data()[0] == 0 && (n_groups == 0 || group_starts.data()[n_groups] == size) &&
                std::is_sorted(group_starts.data(), group_starts.data() + n_groups + 1),
            "group_starts must rise from 0 to the number of variables");
    Stop stopping{std::move(stop)};
    const BlockProblem<Real> problem{
        size,         matrix.data(),       matrix.stride(0), beta.data(), gradient.data(),     lower.data(),
        upper.data(), group_starts.data(), n_groups,         n_threads,   stopping.function(), &stopping};
    const Implementation& native = implementation(isa);
    const BlockSolver<Real> solver = newton ? newton_steps_of<Real>(native) : pair_steps_of<Real>(native);
    BlockResult result{};
    {
        const ReleasedGil released;
        result = solver(problem, tol, max_iter);
    }
    stopping.rethrow();
    return {static_cast<int>(result.end), result.n_iter, result.violation};
}

template <class Real>
std::tuple<int, int64_t, double> solve_joint_block(const std::string& isa, bool conjugate, MatrixOf<const Real> matrix,
                                                   DoubleRows beta, DoubleRows gradient, ConstIndices labels,
                                                   ConstDoubles penalty, double tol, int64_t max_iter, double max_work,
                                                   nb::object stop) {
    const auto size = static_cast<int64_t>(beta.shape(0)), n_classes = static_cast<int64_t>(beta.shape(1));
    check_padded(matrix, size);
    require(gradient.shape(0) == beta.shape(0) && gradient.shape(1) == beta.shape(1) && n_classes >= 1,
            "beta and gradient must have the same shape, of one class or more");
    require(static_cast<int64_t>(labels.shape(0)) == size && static_cast<int64_t>(penalty.shape(0)) == size,
            "labels and penalty must have an element for each example");
    check_indices(labels.data(), size, n_classes);
    Stop stopping{std::move(stop)};
    const JointProblem<Real> problem{
        size,          n_classes,      matrix.data(),       matrix.stride(0), beta.data(), gradient.data(),
        labels.data(), penalty.data(), stopping.function(), &stopping};
    const Implementation& native = implementation(isa);
    JointSolver<Real> solver = nullptr;
    if constexpr (std::is_same_v<Real, float>)
        solver = native.joint_steps_single;
    else
        solver = native.joint_steps;
    BlockResult result{};
    {
        const ReleasedGil released;
        result = solver(problem, conjugate, tol, max_iter, max_work);
    }
    stopping.rethrow();
    return {static_cast<int>(result.end), result.n_iter, result.violation};
}

// The progress of several problems, with an element for each problem.
struct InMemoryStates {
    Marks ends, precise, smo_slow;  // ends: BlockEnd values; the others are flags
    Counts n_iter;
    Doubles violations, seconds;

    bool have(int64_t count) const {
        const auto is_sized = [count](const auto& array) { return static_cast<int64_t>(array.shape(0)) == count; };
        return is_sized(ends) && is_sized(n_iter) && is_sized(violations) && is_sized(seconds) && is_sized(precise) &&
               is_sized(smo_slow);
    }

    // Adds the result of a call for one problem; returns whether the problem is finished.
    bool add(int64_t number, const InMemoryResult& result, double spent) const {
        ends.data()[number] = static_cast<int8_t>(result.end);
        n_iter.data()[number] += result.n_iter;
        violations.data()[number] = result.violation;
        seconds.data()[number] += spent;
        precise.data()[number] = result.precise;
        smo_slow.data()[number] = result.smo_slow;
        return result.end != BlockEnd::limit;
    }
};

// Problems on one matrix, one after the other: problem k has the variables edges[k] .. edges[k + 1], each a row of the
// matrix. Their points (beta, values, seen) are updated in place.
struct ProblemArrays {
    ConstIndices edges, rows;
    ConstDoubles linear, lower, upper;
    std::optional<ConstDoubles> ridge;
    std::optional<ConstIndices> groups;
    int64_t n_groups;
    Doubles beta;
    DoubleRows values;
    Marks seen;

    int64_t count() const { return static_cast<int64_t>(edges.shape(0)) - 1; }

    void check(int64_t n_rows) const {
        const auto size = static_cast<int64_t>(beta.shape(0));
        const auto is_sized = [size](const auto& array) { return static_cast<int64_t>(array.shape(0)) == size; };
        require(is_sized(rows) && is_sized(linear) && is_sized(lower) && is_sized(upper) && is_sized(seen) &&
                    (!ridge || is_sized(*ridge)) && (!groups || is_sized(*groups)),
                "rows, linear, lower, upper, ridge, groups, beta and seen must have the same length");
        require(groups.has_value() == (n_groups > 0), "groups are given where there are equality constraints");
        check_indices(rows.data(), size, n_rows);
        if (groups) check_indices(groups->data(), size, n_groups);
        const int64_t* edge = edges.data();
        require(count() >= 0 && edge[0] == 0 && edge[count()] == size && std::is_sorted(edge, edge + count() + 1),
                "edges must rise from 0 to the number of variables");
        require(static_cast<int64_t>(values.shape(0)) == count() && static_cast<int64_t>(values.shape(1)) == n_rows,
                "values must have a row for each problem, with an element for each row of the matrix");
    }
};

// Continues with the problem `first` and then with the problems after it, until `max_work` is used up. Returns the
// number of the problem to continue with, and the bytes of workspace that it needs.
template <class Stored>
std::tuple<int64_t, int64_t> solve_in_memory(const std::string& isa, MatrixOf<const Stored> matrix,
                                             const ProblemArrays& problems, const InMemoryStates& states, int64_t first,
                                             double tol, int64_t max_iter, double max_work, int64_t max_block,
                                             Doubles workspace, nb::object stop) {
    const auto n_rows = static_cast<int64_t>(matrix.shape(0));
    require(static_cast<int64_t>(matrix.shape(1)) == n_rows && (n_rows <= 1 || matrix.stride(1) == 1),
            "the matrix must be square and have contiguous rows");
    problems.check(n_rows);
    const ProblemArrays& p = problems;
    const int64_t count = p.count();
    const int64_t* edge = p.edges.data();
    require(0 <= first && first <= count, "first must be one of the problems");
    require(states.have(count), "what is known of problems must have an element for each");
    Stop stopping{std::move(stop)};
    const Implementation& native = implementation(isa);
    const int64_t most = max_iter < 0 ? std::numeric_limits<int64_t>::max() : max_iter;
    int64_t number = first, wanted = 0;
    {
        const ReleasedGil released;
        for (; number < count && max_work > 0.0 && !stopping.raised; ++number) {
            const int64_t begin = edge[number];
            const InMemoryProblem<Stored> problem{matrix.data(),
                                                  matrix.stride(0),
                                                  n_rows,
                                                  edge[number + 1] - begin,
                                                  p.rows.data() + begin,
                                                  p.linear.data() + begin,
                                                  p.lower.data() + begin,
                                                  p.upper.data() + begin,
                                                  p.ridge ? p.ridge->data() + begin : nullptr,
                                                  p.groups ? p.groups->data() + begin : nullptr,
                                                  p.n_groups,
                                                  p.beta.data() + begin,
                                                  p.values.data() + number * n_rows,
                                                  p.seen.data() + begin,
                                                  stopping.function(),
                                                  &stopping};
            const InMemoryLimits limits{
                tol,       most - states.n_iter.data()[number], max_work,
                max_block, states.precise.data()[number] != 0,  states.smo_slow.data()[number] != 0};
            const auto began = std::chrono::steady_clock::now();
            const InMemoryResult result = in_memory_rounds(native, problem, limits, workspace.data(),
                                                           static_cast<int64_t>(workspace.shape(0) * sizeof(double)));
            const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - began;
            max_work -= std::max(1.0, result.work);
            if (states.add(number, result, spent.count()) || states.n_iter.data()[number] >= most) continue;
            wanted = result.wanted;
            break;
        }
    }
    stopping.rethrow();
    return {number, wanted};
}

template <class Real>
void bind_by_precision(nb::module_& m) {
    m.def("solve_block", &solve_block<Real>, nb::arg("isa"), nb::arg("newton"), nb::arg("matrix").noconvert(),
          nb::kw_only(), nb::arg("beta").noconvert(), nb::arg("gradient").noconvert(), nb::arg("lower").noconvert(),
          nb::arg("upper").noconvert(), nb::arg("group_starts").noconvert(), nb::arg("tol"), nb::arg("max_iter"),
          nb::arg("n_threads") = 1, nb::arg("stop").none() = nb::none());
    m.def("solve_joint_block", &solve_joint_block<Real>, nb::arg("isa"), nb::arg("conjugate"),
          nb::arg("matrix").noconvert(), nb::kw_only(), nb::arg("beta").noconvert(), nb::arg("gradient").noconvert(),
          nb::arg("labels").noconvert(), nb::arg("penalty").noconvert(), nb::arg("tol"), nb::arg("max_iter"),
          nb::arg("max_work"), nb::arg("stop").none() = nb::none());
    m.def("solve_in_memory", &solve_in_memory<Real>, nb::arg("isa"), nb::arg("matrix").noconvert(), nb::arg("problems"),
          nb::arg("states"), nb::kw_only(), nb::arg("first"), nb::arg("tol"), nb::arg("max_iter"), nb::arg("max_work"),
          nb::arg("max_block"), nb::arg("workspace").noconvert(), nb::arg("stop").none() = nb::none());
}

}  // namespace

void bind_solvers(nb::module_& m) {
    nb::class_<ProblemArrays>(m, "ProblemArrays")
        .def(
            "__init__",
            [](ProblemArrays* self, ConstIndices edges, ConstIndices rows, ConstDoubles linear, ConstDoubles lower,
               ConstDoubles upper, std::optional<ConstDoubles> ridge, std::optional<ConstIndices> groups,
               int64_t n_groups, Doubles beta, DoubleRows values, Marks seen) {
                new (self)
                    ProblemArrays{edges, rows, linear, lower, upper, ridge, groups, n_groups, beta, values, seen};
            },
            nb::kw_only(), nb::arg("edges").noconvert(), nb::arg("rows").noconvert(), nb::arg("linear").noconvert(),
            nb::arg("lower").noconvert(), nb::arg("upper").noconvert(), nb::arg("ridge").noconvert().none(),
            nb::arg("groups").noconvert().none(), nb::arg("n_groups"), nb::arg("beta").noconvert(),
            nb::arg("values").noconvert(), nb::arg("seen").noconvert());
    nb::class_<InMemoryStates>(m, "InMemoryStates")
        .def(
            "__init__",
            [](InMemoryStates* self, Marks ends, Marks precise, Marks smo_slow, Counts n_iter, Doubles violations,
               Doubles seconds) { new (self) InMemoryStates{ends, precise, smo_slow, n_iter, violations, seconds}; },
            nb::kw_only(), nb::arg("ends").noconvert(), nb::arg("precise").noconvert(), nb::arg("smo_slow").noconvert(),
            nb::arg("n_iter").noconvert(), nb::arg("violations").noconvert(), nb::arg("seconds").noconvert());
    bind_by_precision<double>(m);
    bind_by_precision<float>(m);
}

}  // namespace mercer
