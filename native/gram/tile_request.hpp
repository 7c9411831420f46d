// The inputs of tiles: the user's tables and the programs of kernels. They are validated once, here, so that tiles need
// not check them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "bindings/binding.hpp"
#include "gram/dispatch.hpp"

namespace mercer {

inline Scalar scalar_of(nb::dlpack::dtype type) {
    if (type == nb::dtype<float>()) return Scalar::f32;
    if (type == nb::dtype<double>()) return Scalar::f64;
    throw nb::type_error("values must be float32 or float64");
}

inline bool is_wide(nb::dlpack::dtype type) {
    if (type == nb::dtype<int64_t>()) return true;
    if (type == nb::dtype<int32_t>()) return false;
    throw nb::type_error("indices must be int32 or int64");
}

inline bool is_exponent(double x) { return x >= 0.0 && x <= 2147483647.0 && x == std::floor(x); }

// A feature of a sparse table is common if at least one row in kCommonShare has it. An entry of a common feature costs
// a part of a vector operation for every column; an entry of a rare feature costs some cycles for each column that has
// it. The two costs are equal at a share between 1/25 and 1/50.
inline constexpr int64_t kCommonShare = 32;

// The user's table. It keeps the arrays alive and validates them once.
class Table {
  public:
    explicit Table(AnyMatrix array) : values_(array), n_(array.shape(0)), p_(array.shape(1)) {
        view_.kind = RowsKind::dense;
        view_.dense = {array.data(), scalar_of(array.dtype()), array.stride(0), array.stride(1)};
    }

    // A dense table together with its numbers as packed integer multiples of a step (see integer_rows).
    Table(AnyMatrix array, ConstUnits units, double step, bool bytes) : Table(array) {
        const int64_t n_units = units_of(p_, bytes);
        require(
            static_cast<int64_t>(units.shape(0)) == n_ && static_cast<int64_t>(units.shape(1)) == n_units + kRowSums,
            "units must have a row per row, of as many as its features fill and what it says of itself");
        require(is_step(step), kStepProblem);
        units_ = units;
        view_.integers = {units.data(), n_units, bytes, step};
    }

    Table(ConstWords words, int64_t n_features, double step)
        : words_(words), n_(static_cast<int64_t>(words.shape(0))), p_(n_features) {
        const auto n_words = static_cast<int64_t>(words.shape(1));
        require(0 < n_features && n_features <= kMostBits && n_words == words_of(n_features),
                "a table of bits has between 1 and 1048575 features, and as many words a row as they fill");
        require(std::isfinite(step * step), "the step must be a number whose square is one");
        const uint64_t beyond = n_features % 64 == 0 ? 0 : ~uint64_t{0} << (n_features % 64);
        uint64_t stray = 0;
        for (int64_t i = 0; i < n_; ++i) stray |= words.data()[i * n_words + n_words - 1] & beyond;
        require(stray == 0, "bits beyond the last feature must be 0");
        view_.kind = RowsKind::bits;
        view_.bits = {words.data(), n_words, step};
    }

    Table(AnyVector data, AnyVector indices, AnyVector indptr, int64_t n_features)
        : data_(data),
          indices_(indices),
          indptr_(indptr),
          n_(static_cast<int64_t>(indptr.shape(0)) - 1),
          p_(n_features) {
        require(n_ >= 0, "indptr must have at least one element");
        require(p_ >= 0, "n_features must not be negative");
        view_.kind = RowsKind::csr;
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

    int64_t n_features() const { return p_; }
    RowsKind kind() const { return view_.kind; }
    double step() const { return view_.bits.step; }
    bool has_steps_of(const Table& other) const {
        const IntegerView &integer_view = view_.integers, &others = other.view_.integers;
        return integer_view.units && others.units && integer_view.step == others.step &&
               integer_view.bytes == others.bytes;
    }

  private:
    static int64_t element(const void* data, bool wide, int64_t at) {
        return wide ? static_cast<const int64_t*>(data)[at] : static_cast<const int32_t*>(data)[at];
    }

    // Orders the features: common features first, in the order of features (see sparse_panels.hpp); then rare features,
    // by descending number of rows.
    void place_features(const std::vector<int64_t>& counts) {
        std::vector<int32_t> order(counts.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
            return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
        });
        for (const int64_t count : counts)
            if (count > 0 && count * kCommonShare >= n_) ++view_.csr.n_common;
        std::sort(order.begin(), order.begin() + view_.csr.n_common);
        places_.resize(counts.size());
        for (std::size_t place = 0; place < order.size(); ++place)
            places_[static_cast<std::size_t>(order[place])] = static_cast<int32_t>(place);
        view_.csr.places = places_.data();
    }

    AnyMatrix values_;
    ConstWords words_;
    ConstUnits units_;
    AnyVector data_, indices_, indptr_;
    int64_t n_, p_;
    std::vector<int32_t> places_;
    RowsView view_{};
};

// A validated program of a kernel: opcodes are known, arguments are in range, and the stack never overflows and ends
// with one tile.
//
// The argument of an operation that needs a pass selects the features: 0 means all features, i > 0 those in columns[i -
// 1], in ascending order. With `direct`, squared distances are computed from differences instead of inner products.
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
            require(ops[i] >= 0 && ops[i] <= static_cast<int32_t>(Op::cosine), "unknown operation in a program");
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
        if (passes_.empty()) pass_of(Op::dot, 0.0);  // a pass is needed, because it defines the tile
    }

    CompiledKernel(const CompiledKernel&) = delete;  // passes point into columns_
    CompiledKernel& operator=(const CompiledKernel&) = delete;

    // Returns the program for tables of this kind and number of features.
    Program view(RowsKind kind, int64_t n_features) const {
        const bool sparse = kind == RowsKind::csr;
        require(!sparse || !direct_, "distances from differences are for dense tables");
        for (const auto& chosen : columns_)
            require(chosen.back() < n_features, "columns must lie below the number of features");
        const auto& passes = sparse ? sparse_passes_ : passes_;
        const Program program{ops_.data(), arguments_.data(), static_cast<int>(ops_.size()), passes.data(),
                              static_cast<int>(passes.size())};
        require(kind == RowsKind::bits || std::find(ops_.begin(), ops_.end(), Op::cosine) == ops_.end(),
                "cosines are for tables of bits; other rows are divided by their lengths");
        require(kind != RowsKind::bits || (!direct_ && columns_.empty()),
                "tables of bits have passes over all features");
        return program;
    }

  private:
    double pass_of(Op op, double argument) {
        require(argument >= 0.0 && argument <= static_cast<double>(columns_.size()) && argument == std::floor(argument),
                "a pass must be over one of the lists of columns");
        const auto which = static_cast<std::size_t>(argument);
        const Pairing pairing = pairing_of(op);
        const int32_t* columns = which == 0 ? nullptr : columns_[which - 1].data();
        const auto count = which == 0 ? 0 : static_cast<int64_t>(columns_[which - 1].size());
        auto chosen_pass = std::find_if(passes_.begin(), passes_.end(), [&](const Pass& pass) {
            return pass.pairing == pairing && pass.columns == columns;
        });
        if (chosen_pass == passes_.end()) {
            chosen_pass = passes_.insert(passes_.end(), Pass{pairing, columns, count, false, false});
            sparse_passes_.push_back(*chosen_pass);
        }
        const auto at = static_cast<std::size_t>(chosen_pass - passes_.begin());
        chosen_pass->with_norms |= (op == Op::sqdist && pairing == Pairing::product) || is_overlap(op);
        chosen_pass->with_offsets |= op == Op::dot;
        sparse_passes_[at].with_norms |= op == Op::sum || is_overlap(op) || is_distance(op);
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
            case Op::tanimoto:
            case Op::dice:
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

inline TileRequest make_request(const Implementation& native, const CompiledKernel& kernel, const Table& left,
                                const std::optional<ConstIndices>& left_rows, const Table& right,
                                const std::optional<ConstIndices>& right_rows,
                                const std::optional<ConstDoubles>& centre, int n_threads) {
    require(left.kind() == right.kind() && left.n_features() == right.n_features() && left.step() == right.step(),
            "both tables must be of the same kind and have the same number of features");
    require(!centre || (static_cast<int64_t>(centre->shape(0)) == left.n_features() && left.kind() == RowsKind::dense),
            "a centre belongs to dense tables and has one value a feature");
    const Program program = kernel.view(left.kind(), left.n_features());
    // Programs without distances use no centre; a centre would only add rounding errors.
    const bool centred = centre && std::any_of(program.ops, program.ops + program.length, is_distance);
    const RowsView left_view = left.rows(left_rows), right_view = right.rows(right_rows);
    // Compares addresses only; two different arrays of equal indices count as different.
    const bool symmetric = &left == &right && left_view.rows == right_view.rows && left_view.count == right_view.count;
    return {program,   left_view, right_view,      centred ? centre->data() : nullptr,
            symmetric, n_threads, native.bit_tile, left.has_steps_of(right) ? native.integer_tile : nullptr};
}

}  // namespace mercer
