// Bindings: typed arrays in, typed arrays out; no defaults, no policy, no silent copies.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "mercer/binding.hpp"
#include "mercer/dispatch.hpp"
#include "mercer/gather.hpp"
#include "mercer/held_rounds.hpp"
#include "mercer/machines.hpp"
#include "mercer/parallel.hpp"
#include "mercer/working_set.hpp"

namespace nb = nanobind;
using namespace mercer;

namespace {

using Doubles = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstDoubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using DoubleRows = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using ConstFlags = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstIndices = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using AnyVector = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using AnyMatrix = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
template <class Real>
using MatrixOf = nb::ndarray<Real, nb::ndim<2>, nb::device::cpu>;

Scalar scalar_of(nb::dlpack::dtype type) {
    if (type == nb::dtype<float>()) return Scalar::f32;
    if (type == nb::dtype<double>()) return Scalar::f64;
    throw nb::type_error("values must be float32 or float64");
}

bool is_wide(nb::dlpack::dtype type) {
    if (type == nb::dtype<int64_t>()) return true;
    if (type == nb::dtype<int32_t>()) return false;
    throw nb::type_error("indices must be int32 or int64");
}

bool is_exponent(double x) { return x >= 0.0 && x <= 2147483647.0 && x == std::floor(x); }

template <class Value>
nb::ndarray<nb::numpy, Value, nb::ndim<1>> owned(std::vector<Value> values) {
    auto* kept = new std::vector<Value>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<Value>*>(p); });
    return nb::ndarray<nb::numpy, Value, nb::ndim<1>>(kept->data(), {kept->size()}, owner);
}

// A feature is common where at least one in so many rows has it. An entry of a common one costs a share of a vector for
// every column, one of a rare one some cycles for each column that has it: the two cost the same at 1/25 to 1/50.
constexpr int64_t kCommonShare = 32;

// The user's table; keeps the arrays alive and checks once what the tiles then rely on.
class Table {
  public:
    explicit Table(AnyMatrix array) : values_(array), n_(array.shape(0)), p_(array.shape(1)) {
        view_.sparse = false;
        view_.dense = {array.data(), scalar_of(array.dtype()), array.stride(0), array.stride(1)};
    }

    Table(AnyVector data, AnyVector indices, AnyVector indptr, int64_t n_features)
        : data_(data),
          indices_(indices),
          indptr_(indptr),
          n_(static_cast<int64_t>(indptr.shape(0)) - 1),
          p_(n_features) {
        require(n_ >= 0, "indptr must have at least one element");
        require(p_ >= 0, "n_features must not be negative");
        view_.sparse = true;
        view_.csr = {data.data(),
                     scalar_of(data.dtype()),
                     indices.data(),
                     indptr.data(),
                     is_wide(indices.dtype()),
                     is_wide(indptr.dtype()),
                     nullptr,
                     0};
        const auto entries = static_cast<int64_t>(data.shape(0));
        require(static_cast<int64_t>(indices.shape(0)) == entries, "data and indices must have the same length");
        int64_t last = element(indptr.data(), view_.csr.wide_indptr, 0);
        require(last == 0, "indptr must start at 0");
        for (int64_t i = 1; i <= n_; ++i) {
            const int64_t next = element(indptr.data(), view_.csr.wide_indptr, i);
            require(next >= last && next <= entries, "indptr must not decrease nor pass the number of entries");
            last = next;
        }
        require(p_ <= std::numeric_limits<int32_t>::max(), "sparse tables must have fewer than 2^31 features");
        std::vector<int64_t> counts(static_cast<std::size_t>(p_), 0);
        for (int64_t e = 0; e < last; ++e) {
            const int64_t column = element(indices.data(), view_.csr.wide_indices, e);
            require(column >= 0 && column < p_, "indices must lie between 0 and the number of features");
            ++counts[static_cast<std::size_t>(column)];
        }
        place_features(counts);
    }

    RowsView rows(const std::optional<ConstIndices>& chosen) const {
        RowsView view = view_;
        view.n_features = p_;
        view.rows = chosen ? chosen->data() : nullptr;
        view.count = chosen ? static_cast<int64_t>(chosen->shape(0)) : n_;
        if (chosen) check_indices(view.rows, view.count, n_);
        return view;
    }

    static void check_indices(const int64_t* indices, int64_t count, int64_t n) {
        for (int64_t i = 0; i < count; ++i)
            require(indices[i] >= 0 && indices[i] < n, "row indices must lie between 0 and the number of rows");
    }

    int64_t n_features() const { return p_; }
    bool sparse() const { return view_.sparse; }

  private:
    static int64_t element(const void* data, bool wide, int64_t at) {
        return wide ? static_cast<const int64_t*>(data)[at] : static_cast<const int32_t*>(data)[at];
    }

    // Those of many rows first, which also keeps what is used often close together; see sparse_panels.hpp.
    void place_features(const std::vector<int64_t>& counts) {
        std::vector<int32_t> order(counts.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
            return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
        });
        places_.resize(counts.size());
        for (std::size_t place = 0; place < order.size(); ++place) {
            const auto feature = static_cast<std::size_t>(order[place]);
            places_[feature] = static_cast<int32_t>(place);
            if (counts[feature] > 0 && counts[feature] * kCommonShare >= n_) ++view_.csr.n_common;
        }
        view_.csr.places = places_.data();
    }

    AnyMatrix values_;
    AnyVector data_, indices_, indptr_;
    int64_t n_, p_;
    std::vector<int32_t> places_;
    RowsView view_{};
};

// A kernel's program, checked: known opcodes, arguments in range, a stack that fits and ends with one tile.
//
// Where an operation begins with a pass over features, its argument says over which: 0 all, i those in columns[i - 1],
// in rising order. With `direct`, squared distances come from differences, not from inner products.
class CompiledKernel {
  public:
    CompiledKernel(const std::vector<int32_t>& ops, const std::vector<double>& arguments, bool direct,
                   const std::vector<std::vector<int32_t>>& columns)
        : arguments_(arguments), columns_(columns), direct_(direct) {
        require(ops.size() == arguments.size() && !ops.empty() && ops.size() <= kMaxProgram,
                "a program must have between 1 and 256 operations, each with its argument");
        for (const auto& chosen : columns_)
            require(!chosen.empty() && chosen.front() >= 0 &&
                        std::adjacent_find(chosen.begin(), chosen.end(), std::greater_equal<>()) == chosen.end(),
                    "columns must be at least one, and rise from 0 on");
        int depth = 0;
        for (std::size_t i = 0; i < ops.size(); ++i) {
            require(ops[i] >= 0 && ops[i] <= static_cast<int32_t>(Op::sum), "unknown operation in a program");
            const Op op = static_cast<Op>(ops[i]);
            ops_.push_back(op);
            if (is_pass(op) || op == Op::constant)
                ++depth;
            else if (op == Op::add || op == Op::mul)
                require(--depth >= 1, "a program takes more tiles than it has made");
            else
                require(depth >= 1, "a program takes more tiles than it has made");
            require(depth <= kMaxStack, "a program may hold at most 8 tiles at a time");
            require(op != Op::power || is_exponent(arguments[i]), "a power must be an integer from 0 to 2147483647");
            if (is_pass(op)) arguments_[i] = pass_of(op, arguments[i]);
        }
        require(depth == 1, "a program must leave exactly one tile");
        if (passes_.empty()) pass_of(Op::dot, 0.0);  // something has to say how large a tile is
    }

    CompiledKernel(const CompiledKernel&) = delete;  // passes point into columns_
    CompiledKernel& operator=(const CompiledKernel&) = delete;

    // For tables of one kind, which has so many features.
    Program view(bool sparse, int64_t n_features) const {
        require(!sparse || !direct_, "distances from differences are for dense tables");
        for (const auto& chosen : columns_)
            require(chosen.back() < n_features, "columns must lie below the number of features");
        const auto& passes = sparse ? sparse_passes_ : passes_;
        return {ops_.data(), arguments_.data(), static_cast<int>(ops_.size()), passes.data(),
                static_cast<int>(passes.size())};
    }

  private:
    double pass_of(Op op, double argument) {
        require(argument >= 0.0 && argument <= static_cast<double>(columns_.size()) && argument == std::floor(argument),
                "a pass must be over one of the lists of columns");
        const auto which = static_cast<std::size_t>(argument);
        const Pairing pairing = pairing_of(op);
        const int32_t* columns = which == 0 ? nullptr : columns_[which - 1].data();
        const auto count = which == 0 ? 0 : static_cast<int64_t>(columns_[which - 1].size());
        auto found = std::find_if(passes_.begin(), passes_.end(),
                                  [&](const Pass& pass) { return pass.pairing == pairing && pass.columns == columns; });
        if (found == passes_.end()) {
            found = passes_.insert(passes_.end(), Pass{pairing, columns, count, false, false});
            sparse_passes_.push_back(*found);
        }
        const auto at = static_cast<std::size_t>(found - passes_.begin());
        found->with_norms |= op == Op::sqdist && pairing == Pairing::product;
        found->with_offsets |= op == Op::dot;
        sparse_passes_[at].with_norms |= op == Op::sum || is_distance(op);
        return static_cast<double>(at);
    }

    Pairing pairing_of(Op op) const {
        switch (op) {
            case Op::sqdist:
                return direct_ ? Pairing::squared_difference : Pairing::product;
            case Op::l1:
                return Pairing::l1;
            case Op::chi2:
                return Pairing::chi2;
            case Op::hamming:
                return Pairing::hamming;
            case Op::minimum:
                return Pairing::minimum;
            case Op::sum:
                return Pairing::sum;
            default:
                return Pairing::product;
        }
    }

    std::vector<Op> ops_;
    std::vector<double> arguments_;
    std::vector<std::vector<int32_t>> columns_;
    std::vector<Pass> passes_, sparse_passes_;
    bool direct_;
};

const Implementation& implementation(const std::string& isa) {
    const Implementation* found = find_implementation(isa.c_str());
    if (found == nullptr) throw nb::value_error("this machine or this build has no such instruction set");
    return *found;
}

TileRequest make_request(const CompiledKernel& kernel, const Table& left, const std::optional<ConstIndices>& left_rows,
                         const Table& right, const std::optional<ConstIndices>& right_rows,
                         const std::optional<ConstDoubles>& centre, int n_threads) {
    require(left.sparse() == right.sparse() && left.n_features() == right.n_features(),
            "both tables must be of the same kind and have the same number of features");
    require(!centre || (static_cast<int64_t>(centre->shape(0)) == left.n_features() && !left.sparse()),
            "a centre belongs to dense tables and has one value a feature");
    const Program program = kernel.view(left.sparse(), left.n_features());
    // Inner products need no centre, and are exact without one.
    const bool centred = centre && std::any_of(program.ops, program.ops + program.length, is_distance);
    const RowsView left_view = left.rows(left_rows), right_view = right.rows(right_rows);
    // By identity: what two arrays of indices hold is not compared.
    const bool symmetric = &left == &right && left_view.rows == right_view.rows && left_view.count == right_view.count;
    return {program, left_view, right_view, centred ? centre->data() : nullptr, symmetric, n_threads};
}

template <class Real>
void block(const std::string& isa, const CompiledKernel& kernel, const Table& left,
           std::optional<ConstIndices> left_rows, const Table& right, std::optional<ConstIndices> right_rows,
           std::optional<ConstDoubles> centre, MatrixOf<Real> out, int n_threads) {
    const TileRequest request = make_request(kernel, left, left_rows, right, right_rows, centre, n_threads);
    require(static_cast<int64_t>(out.shape(0)) == request.left.count &&
                static_cast<int64_t>(out.shape(1)) == request.right.count &&
                (out.size() == 0 || out.shape(1) <= 1 || out.stride(1) == 1),
            "out must have a row per left row, a column per right row and contiguous rows");
    const Implementation& native = implementation(isa);
    nb::gil_scoped_release release;
    if constexpr (std::is_same_v<Real, float>)
        native.block_single(request, out.data(), out.stride(0));
    else
        native.block(request, out.data(), out.stride(0));
}

template <bool single>
void matvec(const std::string& isa, const CompiledKernel& kernel, const Table& left,
            std::optional<ConstIndices> left_rows, const Table& right, std::optional<ConstIndices> right_rows,
            std::optional<ConstDoubles> centre, nb::ndarray<const double, nb::ndim<2>, nb::c_contig> vectors,
            nb::ndarray<double, nb::ndim<2>, nb::c_contig> out, int n_threads) {
    const TileRequest request = make_request(kernel, left, left_rows, right, right_rows, centre, n_threads);
    require(static_cast<int64_t>(vectors.shape(0)) == request.right.count &&
                static_cast<int64_t>(out.shape(0)) == request.left.count && vectors.shape(1) == out.shape(1),
            "vectors must have a row per right row, out a row per left row, both the same number of columns");
    const Implementation& native = implementation(isa);
    nb::gil_scoped_release release;
    (single ? native.matvec_single : native.matvec)(request, vectors.data(), static_cast<int64_t>(vectors.shape(1)),
                                                    out.data());
}

// Asks a Python function whether to stop; what it raises is kept for later, for native code must not be left by it.
struct Stop {
    nb::object question;
    std::exception_ptr raised{};

    static bool ask(void* context) {
        auto* self = static_cast<Stop*>(context);
        nb::gil_scoped_acquire locked;
        try {
            return self->raised || nb::cast<bool>(self->question());
        } catch (...) {
            self->raised = std::current_exception();
            return true;
        }
    }
};

template <class Real>
void check_padded(const MatrixOf<const Real>& matrix, int64_t size) {
    const int64_t padded = (size + kBlockPadding - 1) / kBlockPadding * kBlockPadding;
    require(static_cast<int64_t>(matrix.shape(0)) == size && static_cast<int64_t>(matrix.shape(1)) == padded &&
                (size <= 1 || matrix.stride(0) >= padded) && (padded == 0 || matrix.stride(1) == 1),
            "the matrix must have a row per variable, padded with zeros to a multiple of 16 columns");
}

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
    const bool asks = !stopping.question.is_none();
    const BlockProblem<Real> problem{size,
                                     matrix.data(),
                                     matrix.stride(0),
                                     beta.data(),
                                     gradient.data(),
                                     lower.data(),
                                     upper.data(),
                                     group_starts.data(),
                                     n_groups,
                                     n_threads,
                                     asks ? Stop::ask : nullptr,
                                     &stopping};
    const Implementation& native = implementation(isa);
    BlockSolver<Real> solver = nullptr;
    if constexpr (std::is_same_v<Real, float>)
        solver = newton ? native.newton_steps_single : native.pair_steps_single;
    else
        solver = newton ? native.newton_steps : native.pair_steps;
    BlockResult result{};
    {
        nb::gil_scoped_release release;
        result = solver(problem, tol, max_iter);
    }
    if (stopping.raised) std::rethrow_exception(stopping.raised);
    return {static_cast<int>(result.end), result.n_iter, result.violation};
}

template <class Real>
std::tuple<int, int64_t, double> solve_joint_block(const std::string& isa, bool conjugate, MatrixOf<const Real> matrix,
                                                   DoubleRows beta, DoubleRows gradient, ConstIndices own,
                                                   ConstDoubles penalty, double tol, int64_t max_iter, double max_work,
                                                   nb::object stop) {
    const auto size = static_cast<int64_t>(beta.shape(0)), n_classes = static_cast<int64_t>(beta.shape(1));
    check_padded(matrix, size);
    require(gradient.shape(0) == beta.shape(0) && gradient.shape(1) == beta.shape(1) && n_classes >= 1,
            "beta and gradient must have the same shape, of one class or more");
    require(static_cast<int64_t>(own.shape(0)) == size && static_cast<int64_t>(penalty.shape(0)) == size,
            "own and penalty must have an element for each example");
    Table::check_indices(own.data(), size, n_classes);
    Stop stopping{std::move(stop)};
    const bool asks = !stopping.question.is_none();
    const JointProblem<Real> problem{size,
                                     n_classes,
                                     matrix.data(),
                                     matrix.stride(0),
                                     beta.data(),
                                     gradient.data(),
                                     own.data(),
                                     penalty.data(),
                                     asks ? Stop::ask : nullptr,
                                     &stopping};
    const Implementation& native = implementation(isa);
    JointSolver<Real> solver = nullptr;
    if constexpr (std::is_same_v<Real, float>)
        solver = native.joint_steps_single;
    else
        solver = native.joint_steps;
    BlockResult result{};
    {
        nb::gil_scoped_release release;
        result = solver(problem, conjugate, tol, max_iter, max_work);
    }
    if (stopping.raised) std::rethrow_exception(stopping.raised);
    return {static_cast<int>(result.end), result.n_iter, result.violation};
}

Variables make_variables(const ConstDoubles& beta, const ConstDoubles& gradient, const ConstDoubles& lower,
                         const ConstDoubles& upper, const std::optional<ConstIndices>& groups, int64_t n_groups,
                         const std::optional<ConstIndices>& active) {
    const auto n = static_cast<int64_t>(beta.shape(0));
    require(static_cast<int64_t>(gradient.shape(0)) == n && static_cast<int64_t>(lower.shape(0)) == n &&
                static_cast<int64_t>(upper.shape(0)) == n && (!groups || static_cast<int64_t>(groups->shape(0)) == n),
            "beta, gradient, lower, upper and groups must have the same length");
    if (groups) Table::check_indices(groups->data(), n, n_groups);
    const int64_t n_active = active ? static_cast<int64_t>(active->shape(0)) : n;
    if (active) Table::check_indices(active->data(), n_active, n);
    return {n,
            beta.data(),
            gradient.data(),
            lower.data(),
            upper.data(),
            groups ? groups->data() : nullptr,
            n_groups,
            active ? active->data() : nullptr,
            n_active};
}

std::tuple<nb::ndarray<nb::numpy, double, nb::ndim<1>>,
           std::tuple<double, double, double, double, double, int64_t, int64_t>>
conditions(ConstDoubles beta, ConstDoubles values, ConstDoubles linear, ConstDoubles lower, ConstDoubles upper,
           ConstDoubles start, std::optional<ConstDoubles> ridge, std::optional<ConstIndices> groups,
           int64_t n_groups) {
    const auto n = static_cast<int64_t>(beta.shape(0));
    auto fits = [n](const ConstDoubles& array) { return static_cast<int64_t>(array.shape(0)) == n; };
    require(fits(values) && fits(linear) && fits(lower) && fits(upper) && fits(start) && (!ridge || fits(*ridge)) &&
                (!groups || static_cast<int64_t>(groups->shape(0)) == n),
            "beta, values, linear, lower, upper, start, ridge and groups must have the same length");
    require(n_groups >= 0 && (groups || n_groups <= 1), "groups must tell several groups apart");
    if (groups) Table::check_indices(groups->data(), n, n_groups);
    auto multipliers = owned(std::vector<double>(static_cast<std::size_t>(n_groups)));
    const Conditions c =
        find_conditions({n, beta.data(), values.data(), linear.data(), lower.data(), upper.data(), start.data(),
                         ridge ? ridge->data() : nullptr, groups ? groups->data() : nullptr, n_groups},
                        multipliers.data());
    return {multipliers, {c.quadratic, c.linear, c.mass, c.infeasibility, c.excess, c.n_free, c.n_bounded}};
}

using Pairs = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// The machines of a batch, with their variables one after the other.
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

int64_t machines_workspace(ConstIndices part_starts, Pairs pairs, int n_threads) {
    const std::vector<Machine> machines = make_machines(part_starts, pairs);
    return machine_workspace(machines.data(), static_cast<int64_t>(machines.size()), std::max(1, n_threads));
}

// A row a machine: end, n_iter, n_values, seconds, longest, spread, largest, multiplier, primal, then the conditions.
constexpr std::size_t kMachineNumbers = 16;
using MachineTable = nb::ndarray<nb::numpy, double, nb::ndim<2>>;

MachineTable machines(const std::string& isa, const CompiledKernel& kernel, const Table& table,
                      std::optional<ConstDoubles> centre, ConstIndices rows, ConstIndices part_starts,
                      std::optional<Doubles> shared, bool fill_shared, Pairs pairs,
                      std::optional<ConstDoubles> diagonal, ConstDoubles start, ConstDoubles linear, ConstDoubles lower,
                      ConstDoubles upper, Doubles beta, Doubles values, bool grouped, double tol, int64_t max_iter,
                      int64_t exact_size, int64_t whole_size, double value_work, double work_limit, Doubles workspace,
                      int n_threads) {
    const std::vector<Machine> list = make_machines(part_starts, pairs);
    const int64_t n_parts = static_cast<int64_t>(part_starts.shape(0)) - 1;
    const int64_t size = list.empty() ? 0 : list.back().offset + list.back().size;
    for (const auto& array : {start, linear, lower, upper, ConstDoubles(beta), ConstDoubles(values)})
        require(static_cast<int64_t>(array.shape(0)) == size, "every machine must have its variables");
    require(!diagonal || static_cast<int64_t>(diagonal->shape(0)) >= part_starts.data()[n_parts],
            "the diagonal must have a number for each row");
    require(part_starts.data()[n_parts] <= static_cast<int64_t>(rows.shape(0)), "parts must be of rows");
    // Several machines are one thread's work each; the values of a single one are evaluated by all of them.
    const int n_within = list.size() == 1 ? n_threads : 1;
    n_threads = std::max(1, std::min(n_threads, static_cast<int>(list.size())));
    MachineBatch batch{make_request(kernel, table, rows, table, rows, centre, n_within),
                       rows.data(),
                       part_starts.data(),
                       n_parts,
                       shared ? shared->data() : nullptr,
                       fill_shared,
                       list.data(),
                       static_cast<int64_t>(list.size()),
                       diagonal ? diagonal->data() : nullptr,
                       start.data(),
                       linear.data(),
                       lower.data(),
                       upper.data(),
                       beta.data(),
                       values.data(),
                       grouped,
                       tol,
                       max_iter,
                       exact_size,
                       diagonal ? whole_size : std::numeric_limits<int64_t>::max(),
                       value_work,
                       work_limit};
    int64_t shared_size = 0;
    for (int64_t part = 0; part < n_parts; ++part) {
        const int64_t rows_of_part = part_starts.data()[part + 1] - part_starts.data()[part];
        shared_size += rows_of_part * rows_of_part;
    }
    require(!shared || static_cast<int64_t>(shared->shape(0)) >= shared_size, "shared must hold every part's matrix");
    require(static_cast<int64_t>(workspace.shape(0)) >= machine_workspace(list.data(), batch.n_machines, n_threads),
            "the workspace is too small");
    const Implementation& native = implementation(isa);
    std::vector<MachineResult> results(list.size());
    {
        nb::gil_scoped_release release;
        results.resize(
            static_cast<std::size_t>(solve_machines(native, batch, workspace.data(), n_threads, results.data())));
    }
    auto* found = new std::vector<double>;
    nb::capsule owner(found, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
    found->reserve(results.size() * kMachineNumbers);
    for (const MachineResult& r : results) {
        const Conditions& c = r.conditions;
        const auto end = static_cast<double>(static_cast<int>(r.end)), n_iter = static_cast<double>(r.n_iter),
                   n_values = static_cast<double>(r.n_values);
        const auto n_free = static_cast<double>(c.n_free), n_bounded = static_cast<double>(c.n_bounded);
        found->insert(found->end(),
                      {end, n_iter, n_values, r.seconds, r.longest, r.spread, r.largest, r.multiplier, r.primal,
                       c.quadratic, c.linear, c.mass, c.infeasibility, c.excess, n_free, n_bounded});
    }
    return MachineTable(found->data(), {results.size(), kMachineNumbers}, owner);
}

void complete_square(MatrixOf<float> matrix, ConstIndices missing, MatrixOf<const float> square, int n_threads) {
    const auto size = static_cast<int64_t>(matrix.shape(0)), n_missing = static_cast<int64_t>(missing.shape(0));
    require(static_cast<int64_t>(matrix.shape(1)) == size && (size <= 1 || matrix.stride(1) == 1),
            "the matrix must be square, with contiguous rows");
    require(static_cast<int64_t>(square.shape(0)) == n_missing && static_cast<int64_t>(square.shape(1)) == n_missing &&
                (n_missing <= 1 || square.stride(1) == 1),
            "the square must have a row and a column per missing row, with contiguous rows");
    Table::check_indices(missing.data(), n_missing, size);
    nb::gil_scoped_release release;
    complete({matrix.data(), matrix.stride(0), size}, missing.data(), n_missing, square.data(), square.stride(0),
             n_threads);
}

template <class Kept>
KeptRows<Kept> make_kept(const MatrixOf<const Kept>& values, const ConstIndices& slots,
                         const std::optional<ConstIndices>& columns, int64_t least_slot) {
    require(values.shape(1) <= 1 || values.stride(1) == 1, "kept rows must be contiguous");
    const auto n_slots = static_cast<int64_t>(slots.shape(0)), n_kept = static_cast<int64_t>(values.shape(0));
    for (int64_t i = 0; i < n_slots; ++i)
        require(slots.data()[i] >= least_slot && slots.data()[i] < n_kept, "slots must be those of kept rows");
    const auto width = static_cast<int64_t>(values.shape(1));
    const int64_t n_columns = columns ? static_cast<int64_t>(columns->shape(0)) : width;
    if (columns) Table::check_indices(columns->data(), n_columns, width);
    return {values.data(), values.stride(0), slots.data(), n_slots, columns ? columns->data() : nullptr, n_columns};
}

template <class Kept, class Real>
void gather_rows(MatrixOf<const Kept> values, ConstIndices slots, std::optional<ConstIndices> columns,
                 MatrixOf<Real> out, int n_threads) {
    const KeptRows<Kept> kept = make_kept<Kept>(values, slots, columns, -1);
    require(static_cast<int64_t>(out.shape(0)) == kept.n_slots &&
                static_cast<int64_t>(out.shape(1)) == kept.n_columns && (out.shape(1) <= 1 || out.stride(1) == 1),
            "out must have a row per slot, a column per column and contiguous rows");
    nb::gil_scoped_release release;
    gather(kept, out.data(), out.stride(0), n_threads);
}

template <class Kept>
void combine_rows(MatrixOf<const Kept> values, ConstIndices slots, std::optional<ConstIndices> columns,
                  ConstDoubles weights, Doubles out, int n_threads) {
    const KeptRows<Kept> kept = make_kept<Kept>(values, slots, columns, 0);
    require(
        static_cast<int64_t>(weights.shape(0)) == kept.n_slots && static_cast<int64_t>(out.shape(0)) == kept.n_columns,
        "weights must have one number per slot, out one per column");
    nb::gil_scoped_release release;
    combine(kept, weights.data(), out.data(), n_threads);
}

template <class Kept>
std::tuple<int, int64_t, double, bool, int64_t> solve_held(
    const std::string& isa, MatrixOf<const Kept> matrix, double largest, ConstIndices rows, ConstDoubles linear,
    ConstDoubles lower, ConstDoubles upper, std::optional<ConstDoubles> ridge, std::optional<ConstIndices> groups,
    int64_t n_groups, Doubles beta, Doubles values,
    nb::ndarray<int8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> seen, double tol, int64_t max_iter, double max_work,
    int64_t max_block, bool precise, Doubles workspace, nb::object stop) {
    const auto size = static_cast<int64_t>(beta.shape(0)), n_rows = static_cast<int64_t>(matrix.shape(0));
    require(static_cast<int64_t>(matrix.shape(1)) == n_rows && (n_rows <= 1 || matrix.stride(1) == 1),
            "the matrix must be square and have contiguous rows");
    require(static_cast<int64_t>(values.shape(0)) == n_rows, "values must have an element for each row of the matrix");
    const auto is_sized = [size](const auto& array) { return static_cast<int64_t>(array.shape(0)) == size; };
    require(is_sized(rows) && is_sized(linear) && is_sized(lower) && is_sized(upper) && is_sized(seen) &&
                (!ridge || is_sized(*ridge)) && (!groups || is_sized(*groups)),
            "rows, linear, lower, upper, ridge, groups, beta and seen must have the same length");
    require(groups.has_value() == (n_groups > 0), "groups are given where there are equality constraints");
    Table::check_indices(rows.data(), size, n_rows);
    if (groups) Table::check_indices(groups->data(), size, n_groups);
    Stop stopping{std::move(stop)};
    const bool asks = !stopping.question.is_none();
    const HeldProblem<Kept> problem{matrix.data(),
                                    matrix.stride(0),
                                    n_rows,
                                    largest,
                                    size,
                                    rows.data(),
                                    linear.data(),
                                    lower.data(),
                                    upper.data(),
                                    ridge ? ridge->data() : nullptr,
                                    groups ? groups->data() : nullptr,
                                    n_groups,
                                    beta.data(),
                                    values.data(),
                                    seen.data(),
                                    asks ? Stop::ask : nullptr,
                                    &stopping};
    const HeldLimits limits{tol, max_iter < 0 ? std::numeric_limits<int64_t>::max() : max_iter, max_work, max_block,
                            precise};
    HeldResult result{};
    {
        nb::gil_scoped_release release;
        result = held_rounds(implementation(isa), problem, limits, workspace.data(),
                             static_cast<int64_t>(workspace.shape(0) * sizeof(double)));
    }
    if (stopping.raised) std::rethrow_exception(stopping.raised);
    return {static_cast<int>(result.end), result.n_iter, result.violation, result.precise, result.wanted};
}

template <class Kept, class Real>
void bind_gather(nb::module_& m) {
    m.def("gather_rows", &gather_rows<Kept, Real>, nb::arg("values").noconvert(), nb::arg("slots").noconvert(),
          nb::arg("columns").noconvert().none(), nb::arg("out").noconvert(), nb::arg("n_threads"));
}

// Functions of a matrix in double or in single precision.
template <class Real>
void bind_by_precision(nb::module_& m) {
    bind_gather<Real, float>(m);
    m.def("combine_rows", &combine_rows<Real>, nb::arg("values").noconvert(), nb::arg("slots").noconvert(),
          nb::arg("columns").noconvert().none(), nb::arg("weights").noconvert(), nb::arg("out").noconvert(),
          nb::arg("n_threads"));
    m.def("solve_held", &solve_held<Real>, nb::arg("isa"), nb::arg("matrix").noconvert(), nb::arg("largest"),
          nb::arg("rows").noconvert(), nb::arg("linear").noconvert(), nb::arg("lower").noconvert(),
          nb::arg("upper").noconvert(), nb::arg("ridge").noconvert().none(), nb::arg("groups").noconvert().none(),
          nb::arg("n_groups"), nb::arg("beta").noconvert(), nb::arg("values").noconvert(), nb::arg("seen").noconvert(),
          nb::arg("tol"), nb::arg("max_iter"), nb::arg("max_work"), nb::arg("max_block"), nb::arg("precise"),
          nb::arg("workspace").noconvert(), nb::arg("stop").none() = nb::none());
    m.def("block", &block<Real>, nb::arg("isa"), nb::arg("kernel"), nb::arg("left"),
          nb::arg("left_rows").noconvert().none(), nb::arg("right"), nb::arg("right_rows").noconvert().none(),
          nb::arg("centre").noconvert().none(), nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("solve_block", &solve_block<Real>, nb::arg("isa"), nb::arg("newton"), nb::arg("matrix").noconvert(),
          nb::arg("beta").noconvert(), nb::arg("gradient").noconvert(), nb::arg("lower").noconvert(),
          nb::arg("upper").noconvert(), nb::arg("group_starts").noconvert(), nb::arg("tol"), nb::arg("max_iter"),
          nb::arg("n_threads") = 1, nb::arg("stop").none() = nb::none());
    m.def("solve_joint_block", &solve_joint_block<Real>, nb::arg("isa"), nb::arg("conjugate"),
          nb::arg("matrix").noconvert(), nb::arg("beta").noconvert(), nb::arg("gradient").noconvert(),
          nb::arg("own").noconvert(), nb::arg("penalty").noconvert(), nb::arg("tol"), nb::arg("max_iter"),
          nb::arg("max_work"), nb::arg("stop").none() = nb::none());
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Native core of mercer: kernel tiles, block solvers, working sets.";

    nb::class_<Table>(m, "Table")
        .def(nb::init<AnyMatrix>(), nb::arg("array").noconvert())
        .def(nb::init<AnyVector, AnyVector, AnyVector, int64_t>(), nb::arg("data").noconvert(),
             nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("n_features"));
    nb::class_<CompiledKernel>(m, "CompiledKernel")
        .def(nb::init<const std::vector<int32_t>&, const std::vector<double>&, bool,
                      const std::vector<std::vector<int32_t>>&>(),
             nb::arg("ops"), nb::arg("arguments"), nb::arg("direct") = false,
             nb::arg("columns") = std::vector<std::vector<int32_t>>{});

    bind_strings(m);
    bind_leave_out(m);
    m.def("thread_limit", &mercer_get_num_threads);
    m.def("best_isa", [] { return std::string(best_implementation().name); });
    m.def(
        "has_isa", [](const std::string& name) { return find_implementation(name.c_str()) != nullptr; },
        nb::arg("name"));
    bind_gather<double, double>(m);
    bind_gather<float, double>(m);
    m.def("complete_square", &complete_square, nb::arg("matrix").noconvert(), nb::arg("missing").noconvert(),
          nb::arg("square").noconvert(), nb::arg("n_threads"));
    bind_by_precision<double>(m);
    bind_by_precision<float>(m);
    m.def("matvec", &matvec<false>, nb::arg("isa"), nb::arg("kernel"), nb::arg("left"),
          nb::arg("left_rows").noconvert().none(), nb::arg("right"), nb::arg("right_rows").noconvert().none(),
          nb::arg("centre").noconvert().none(), nb::arg("vectors").noconvert(), nb::arg("out").noconvert(),
          nb::arg("n_threads"));
    m.def("matvec_single", &matvec<true>, nb::arg("isa"), nb::arg("kernel"), nb::arg("left"),
          nb::arg("left_rows").noconvert().none(), nb::arg("right"), nb::arg("right_rows").noconvert().none(),
          nb::arg("centre").noconvert().none(), nb::arg("vectors").noconvert(), nb::arg("out").noconvert(),
          nb::arg("n_threads"));
    m.def("conditions", &conditions, nb::arg("beta").noconvert(), nb::arg("values").noconvert(),
          nb::arg("linear").noconvert(), nb::arg("lower").noconvert(), nb::arg("upper").noconvert(),
          nb::arg("start").noconvert(), nb::arg("ridge").noconvert().none(), nb::arg("groups").noconvert().none(),
          nb::arg("n_groups"));
    m.def("machines_workspace", &machines_workspace, nb::arg("part_starts").noconvert(), nb::arg("pairs").noconvert(),
          nb::arg("n_threads"));
    m.def("solve_machines", &machines, nb::arg("isa"), nb::arg("kernel"), nb::arg("table"),
          nb::arg("centre").noconvert().none(), nb::arg("rows").noconvert(), nb::arg("part_starts").noconvert(),
          nb::arg("shared").noconvert().none(), nb::arg("fill_shared"), nb::arg("pairs").noconvert(),
          nb::arg("diagonal").noconvert().none(), nb::arg("start").noconvert(), nb::arg("linear").noconvert(),
          nb::arg("lower").noconvert(), nb::arg("upper").noconvert(), nb::arg("beta").noconvert(),
          nb::arg("values").noconvert(), nb::arg("grouped"), nb::arg("tol"), nb::arg("max_iter"), nb::arg("exact_size"),
          nb::arg("whole_size"), nb::arg("value_work"), nb::arg("work_limit"), nb::arg("workspace").noconvert(),
          nb::arg("n_threads"));
    m.def(
        "survey",
        [](ConstDoubles beta, ConstDoubles gradient, ConstDoubles lower, ConstDoubles upper,
           std::optional<ConstIndices> groups, int64_t n_groups, std::optional<ConstIndices> active) {
            Survey found = survey(make_variables(beta, gradient, lower, upper, groups, n_groups, active));
            return std::make_tuple(found.violation, found.n_free, owned(std::move(found.kept)));
        },
        nb::arg("beta").noconvert(), nb::arg("gradient").noconvert(), nb::arg("lower").noconvert(),
        nb::arg("upper").noconvert(), nb::arg("groups").noconvert().none(), nb::arg("n_groups"),
        nb::arg("active").noconvert().none());
    m.def(
        "select_working_set",
        [](ConstDoubles beta, ConstDoubles gradient, ConstDoubles lower, ConstDoubles upper,
           std::optional<ConstIndices> groups, int64_t n_groups, std::optional<ConstIndices> active, ConstFlags seen,
           ConstIndices previous, int64_t limit) {
            const Variables v = make_variables(beta, gradient, lower, upper, groups, n_groups, active);
            const auto n_previous = static_cast<int64_t>(previous.shape(0));
            Table::check_indices(previous.data(), n_previous, v.size);
            require(static_cast<int64_t>(seen.shape(0)) == v.size, "seen must have a flag per variable");
            require(limit >= 0, "limit must not be negative");
            return owned(select_working_set(v, seen.data(), previous.data(), n_previous, limit));
        },
        nb::arg("beta").noconvert(), nb::arg("gradient").noconvert(), nb::arg("lower").noconvert(),
        nb::arg("upper").noconvert(), nb::arg("groups").noconvert().none(), nb::arg("n_groups"),
        nb::arg("active").noconvert().none(), nb::arg("seen").noconvert(), nb::arg("previous").noconvert(),
        nb::arg("limit"));
}
