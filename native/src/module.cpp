// Bindings: typed arrays in, typed arrays out; no defaults, no policy, no silent copies.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "mercer/dispatch.hpp"
#include "mercer/gather.hpp"
#include "mercer/parallel.hpp"
#include "mercer/working_set.hpp"

namespace nb = nanobind;
using namespace mercer;

namespace {

using Doubles = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstDoubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
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

void require(bool condition, const char* message) {
    if (!condition) throw nb::value_error(message);
}

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
        view_.csr = {data.data(),   scalar_of(data.dtype()),  indices.data(),
                     indptr.data(), is_wide(indices.dtype()), is_wide(indptr.dtype())};
        const auto entries = static_cast<int64_t>(data.shape(0));
        require(static_cast<int64_t>(indices.shape(0)) == entries, "data and indices must have the same length");
        int64_t last = element(indptr.data(), view_.csr.wide_indptr, 0);
        require(last == 0, "indptr must start at 0");
        for (int64_t i = 1; i <= n_; ++i) {
            const int64_t next = element(indptr.data(), view_.csr.wide_indptr, i);
            require(next >= last && next <= entries, "indptr must not decrease nor pass the number of entries");
            last = next;
        }
        for (int64_t e = 0; e < last; ++e) {
            const int64_t column = element(indices.data(), view_.csr.wide_indices, e);
            require(column >= 0 && column < p_, "indices must lie between 0 and the number of features");
        }
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

    AnyMatrix values_;
    AnyVector data_, indices_, indptr_;
    int64_t n_, p_;
    RowsView view_{};
};

// A kernel's program, checked: known opcodes, arguments in range, a stack that fits and ends with one tile.
class CompiledKernel {
  public:
    CompiledKernel(const std::vector<int32_t>& ops, const std::vector<double>& arguments, bool direct)
        : arguments_(arguments), direct_(direct) {
        require(ops.size() == arguments.size() && !ops.empty() && ops.size() <= kMaxProgram,
                "a program must have between 1 and 256 operations, each with its argument");
        int depth = 0;
        for (std::size_t i = 0; i < ops.size(); ++i) {
            require(ops[i] >= 0 && ops[i] <= static_cast<int32_t>(Op::tanh), "unknown operation in a program");
            const Op op = static_cast<Op>(ops[i]);
            ops_.push_back(op);
            if (op == Op::dot || op == Op::sqdist || op == Op::constant)
                ++depth;
            else if (op == Op::add || op == Op::mul)
                require(--depth >= 1, "a program takes more tiles than it has made");
            else
                require(depth >= 1, "a program takes more tiles than it has made");
            require(depth <= kMaxStack, "a program may hold at most 8 tiles at a time");
            require(op != Op::power || is_exponent(arguments[i]), "a power must be an integer from 0 to 2147483647");
        }
        require(depth == 1, "a program must leave exactly one tile");
        require(!direct || std::find(ops_.begin(), ops_.end(), Op::dot) == ops_.end(),
                "distances from differences leave no inner products");
    }

    Program view() const {
        const bool distance = std::find(ops_.begin(), ops_.end(), Op::sqdist) != ops_.end();
        return {ops_.data(), arguments_.data(), static_cast<int>(ops_.size()), direct_, distance};
    }

  private:
    std::vector<Op> ops_;
    std::vector<double> arguments_;
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
    const Program program = kernel.view();
    require(!program.direct || !left.sparse(), "distances from differences are for dense tables");
    const bool centred = centre && program.uses_sqdist;  // inner products need no centre, and are exact without one
    return {program, left.rows(left_rows), right.rows(right_rows), centred ? centre->data() : nullptr,
            false,   n_threads};
}

template <class Real>
void block(const std::string& isa, const CompiledKernel& kernel, const Table& left,
           std::optional<ConstIndices> left_rows, const Table& right, std::optional<ConstIndices> right_rows,
           std::optional<ConstDoubles> centre, MatrixOf<Real> out, int n_threads) {
    TileRequest request = make_request(kernel, left, left_rows, right, right_rows, centre, n_threads);
    // By identity: what two arrays of indices hold is not compared.
    request.symmetric =
        &left == &right && request.left.rows == request.right.rows && request.left.count == request.right.count;
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

template <class Real>
std::tuple<int, int64_t, double> solve_block(const std::string& isa, bool newton, MatrixOf<const Real> matrix,
                                             Doubles beta, Doubles gradient, ConstDoubles lower, ConstDoubles upper,
                                             ConstIndices group_starts, double tol, int64_t max_iter) {
    const auto size = static_cast<int64_t>(beta.shape(0));
    const int64_t padded = (size + kBlockPadding - 1) / kBlockPadding * kBlockPadding;
    require(static_cast<int64_t>(matrix.shape(0)) == size && static_cast<int64_t>(matrix.shape(1)) == padded &&
                (size <= 1 || matrix.stride(0) >= padded) && (padded == 0 || matrix.stride(1) == 1),
            "the matrix must have a row per variable, padded with zeros to a multiple of 16 columns");
    require(static_cast<int64_t>(gradient.shape(0)) == size && static_cast<int64_t>(lower.shape(0)) == size &&
                static_cast<int64_t>(upper.shape(0)) == size,
            "beta, gradient, lower and upper must have the same length");
    const auto n_groups = static_cast<int64_t>(group_starts.shape(0)) - 1;
    require(n_groups >= 0 && group_starts.data()[0] == 0 && (n_groups == 0 || group_starts.data()[n_groups] == size) &&
                std::is_sorted(group_starts.data(), group_starts.data() + n_groups + 1),
            "group_starts must rise from 0 to the number of variables");
    const BlockProblem<Real> problem{size,         matrix.data(), matrix.stride(0),    beta.data(), gradient.data(),
                                     lower.data(), upper.data(),  group_starts.data(), n_groups};
    const Implementation& native = implementation(isa);
    nb::gil_scoped_release release;
    BlockSolver<Real> solver = nullptr;
    if constexpr (std::is_same_v<Real, float>)
        solver = newton ? native.newton_steps_single : native.pair_steps_single;
    else
        solver = newton ? native.newton_steps : native.pair_steps;
    const BlockResult result = solver(problem, tol, max_iter);
    return {static_cast<int>(result.end), result.n_iter, result.violation};
}

Variables make_variables(const ConstDoubles& beta, const ConstDoubles& gradient, const ConstDoubles& lower,
                         const ConstDoubles& upper, const std::optional<ConstIndices>& groups, int64_t n_groups) {
    const auto n = static_cast<int64_t>(beta.shape(0));
    require(static_cast<int64_t>(gradient.shape(0)) == n && static_cast<int64_t>(lower.shape(0)) == n &&
                static_cast<int64_t>(upper.shape(0)) == n && (!groups || static_cast<int64_t>(groups->shape(0)) == n),
            "beta, gradient, lower, upper and groups must have the same length");
    if (groups) Table::check_indices(groups->data(), n, n_groups);
    return {n, beta.data(), gradient.data(), lower.data(), upper.data(), groups ? groups->data() : nullptr, n_groups};
}

KeptRows make_kept(const MatrixOf<const double>& values, const ConstIndices& slots, const ConstIndices& columns) {
    require(values.shape(1) <= 1 || values.stride(1) == 1, "kept rows must be contiguous");
    Table::check_indices(slots.data(), static_cast<int64_t>(slots.shape(0)), static_cast<int64_t>(values.shape(0)));
    Table::check_indices(columns.data(), static_cast<int64_t>(columns.shape(0)), static_cast<int64_t>(values.shape(1)));
    return {values.data(),  values.stride(0),
            slots.data(),   static_cast<int64_t>(slots.shape(0)),
            columns.data(), static_cast<int64_t>(columns.shape(0))};
}

template <class Real>
void gather_rows(MatrixOf<const double> values, ConstIndices slots, ConstIndices columns, MatrixOf<Real> out,
                 int n_threads) {
    const KeptRows kept = make_kept(values, slots, columns);
    require(static_cast<int64_t>(out.shape(0)) == kept.n_slots &&
                static_cast<int64_t>(out.shape(1)) == kept.n_columns && (out.shape(1) <= 1 || out.stride(1) == 1),
            "out must have a row per slot, a column per column and contiguous rows");
    nb::gil_scoped_release release;
    gather(kept, out.data(), out.stride(0), n_threads);
}

void combine_rows(MatrixOf<const double> values, ConstIndices slots, ConstIndices columns, ConstDoubles weights,
                  Doubles out, int n_threads) {
    const KeptRows kept = make_kept(values, slots, columns);
    require(
        static_cast<int64_t>(weights.shape(0)) == kept.n_slots && static_cast<int64_t>(out.shape(0)) == kept.n_columns,
        "weights must have one number per slot, out one per column");
    nb::gil_scoped_release release;
    combine(kept, weights.data(), out.data(), n_threads);
}

// Functions of a matrix in double or in single precision.
template <class Real>
void bind_by_precision(nb::module_& m) {
    m.def("gather_rows", &gather_rows<Real>, nb::arg("values").noconvert(), nb::arg("slots").noconvert(),
          nb::arg("columns").noconvert(), nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("block", &block<Real>, nb::arg("isa"), nb::arg("kernel"), nb::arg("left"),
          nb::arg("left_rows").noconvert().none(), nb::arg("right"), nb::arg("right_rows").noconvert().none(),
          nb::arg("centre").noconvert().none(), nb::arg("out").noconvert(), nb::arg("n_threads"));
    m.def("solve_block", &solve_block<Real>, nb::arg("isa"), nb::arg("newton"), nb::arg("matrix").noconvert(),
          nb::arg("beta").noconvert(), nb::arg("gradient").noconvert(), nb::arg("lower").noconvert(),
          nb::arg("upper").noconvert(), nb::arg("group_starts").noconvert(), nb::arg("tol"), nb::arg("max_iter"));
}

}  // namespace

NB_MODULE(_core, m) {
    m.doc() = "Native core of mercer: kernel tiles, block solvers, working sets.";

    nb::class_<Table>(m, "Table")
        .def(nb::init<AnyMatrix>(), nb::arg("array").noconvert())
        .def(nb::init<AnyVector, AnyVector, AnyVector, int64_t>(), nb::arg("data").noconvert(),
             nb::arg("indices").noconvert(), nb::arg("indptr").noconvert(), nb::arg("n_features"));
    nb::class_<CompiledKernel>(m, "CompiledKernel")
        .def(nb::init<const std::vector<int32_t>&, const std::vector<double>&, bool>(), nb::arg("ops"),
             nb::arg("arguments"), nb::arg("direct") = false);

    m.def("thread_limit", &mercer_get_num_threads);
    m.def("best_isa", [] { return std::string(best_implementation().name); });
    m.def(
        "has_isa", [](const std::string& name) { return find_implementation(name.c_str()) != nullptr; },
        nb::arg("name"));
    m.def("combine_rows", &combine_rows, nb::arg("values").noconvert(), nb::arg("slots").noconvert(),
          nb::arg("columns").noconvert(), nb::arg("weights").noconvert(), nb::arg("out").noconvert(),
          nb::arg("n_threads"));
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
    m.def(
        "largest_violation",
        [](ConstDoubles beta, ConstDoubles gradient, ConstDoubles lower, ConstDoubles upper,
           std::optional<ConstIndices> groups, int64_t n_groups) {
            return largest_violation(make_variables(beta, gradient, lower, upper, groups, n_groups));
        },
        nb::arg("beta").noconvert(), nb::arg("gradient").noconvert(), nb::arg("lower").noconvert(),
        nb::arg("upper").noconvert(), nb::arg("groups").noconvert().none(), nb::arg("n_groups"));
    m.def(
        "select_working_set",
        [](ConstDoubles beta, ConstDoubles gradient, ConstDoubles lower, ConstDoubles upper,
           std::optional<ConstIndices> groups, int64_t n_groups, ConstIndices previous, int64_t limit) {
            const Variables v = make_variables(beta, gradient, lower, upper, groups, n_groups);
            Table::check_indices(previous.data(), static_cast<int64_t>(previous.shape(0)), v.size);
            require(limit >= 0, "limit must not be negative");
            std::vector<int64_t> chosen =
                select_working_set(v, previous.data(), static_cast<int64_t>(previous.shape(0)), limit);
            auto* owned = new std::vector<int64_t>(std::move(chosen));
            nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<int64_t>*>(p); });
            return nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>(owned->data(), {owned->size()}, owner);
        },
        nb::arg("beta").noconvert(), nb::arg("gradient").noconvert(), nb::arg("lower").noconvert(),
        nb::arg("upper").noconvert(), nb::arg("groups").noconvert().none(), nb::arg("n_groups"),
        nb::arg("previous").noconvert(), nb::arg("limit"));
}
