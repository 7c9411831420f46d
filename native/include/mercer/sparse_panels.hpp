// CSR rows against a block of CSR columns that is held dense over the features that occur in it:
// every nonzero of a row costs one fused multiply-add per vector of columns, and no indices are merged.
#pragma once

#include "mercer/scratch.hpp"
#include "mercer/simd.hpp"
#include "mercer/view.hpp"

namespace mercer::MERCER_ISA {

constexpr int kSparseVectors = 8;
template <class Real>
constexpr int kSparseColumns = kSparseVectors * kLanesOf<Real>;

template <class S, class I, class P>
struct CsrRows {
    const S* data;
    const I* indices;
    const P* indptr;

    explicit CsrRows(const CsrView& view)
        : data(static_cast<const S*>(view.data)),
          indices(static_cast<const I*>(view.indices)),
          indptr(static_cast<const P*>(view.indptr)) {}
};

// Calls use(CsrRows) with the types that the view holds.
template <class Use>
MERCER_INLINE void with_csr(const CsrView& view, Use use) {
    auto pointers = [&]<class S, class I>() {
        if (view.wide_indptr)
            use(CsrRows<S, I, int64_t>(view));
        else
            use(CsrRows<S, I, int32_t>(view));
    };
    auto indices = [&]<class S>() {
        if (view.wide_indices)
            pointers.template operator()<S, int64_t>();
        else
            pointers.template operator()<S, int32_t>();
    };
    if (view.scalar == Scalar::f32)
        indices.template operator()<float>();
    else
        indices.template operator()<double>();
}

// Squared norm, summed and rounded as a product of the row with itself is.
template <class Real, class Rows>
MERCER_INLINE Real sparse_norm(const Rows& rows, int64_t row) {
    Real norm = 0;
    for (auto e = rows.indptr[row]; e < rows.indptr[row + 1]; ++e) {
        const auto value = static_cast<Real>(rows.data[e]);
        norm = multiply_add(value, value, norm);
    }
    return norm;
}

// Number of entries in rows first .. first + count - 1 of the view: bounds the distinct features among them.
template <class Rows>
MERCER_INLINE int64_t count_entries(const Rows& rows, const RowsView& view, int64_t first, int count) {
    int64_t total = 0;
    for (int r = 0; r < count; ++r) {
        const int64_t row = view.rows ? view.rows[first + r] : first + r;
        total += static_cast<int64_t>(rows.indptr[row + 1] - rows.indptr[row]);
    }
    return total;
}

// Scatters the columns into dense[slot][column]; slots[feature] says where a feature went, -1 if nowhere.
// `slots` must be all -1 on entry and has at most `view.n_features` elements; returns the number of slots used.
template <class Real, class Rows>
MERCER_INLINE int32_t scatter_columns(const Rows& rows, const RowsView& view, int64_t first, int count, int32_t* slots,
                                      Real* dense, Real* norms) {
    int32_t used = 0;
    for (int c = 0; c < kSparseColumns<Real>; ++c) norms[c] = 0;
    for (int c = 0; c < count; ++c) {
        const int64_t row = view.rows ? view.rows[first + c] : first + c;
        norms[c] = sparse_norm<Real>(rows, row);
        for (auto e = rows.indptr[row]; e < rows.indptr[row + 1]; ++e) {
            int32_t& slot = slots[rows.indices[e]];
            if (slot < 0) {
                slot = used++;
                for (int j = 0; j < kSparseColumns<Real>; ++j) dense[int64_t{slot} * kSparseColumns<Real> + j] = 0;
            }
            dense[int64_t{slot} * kSparseColumns<Real> + c] = static_cast<Real>(rows.data[e]);
        }
    }
    return used;
}

template <class Rows>
MERCER_INLINE void clear_slots(const Rows& rows, const RowsView& view, int64_t first, int count, int32_t* slots) {
    for (int c = 0; c < count; ++c) {
        const int64_t row = view.rows ? view.rows[first + c] : first + c;
        for (auto e = rows.indptr[row]; e < rows.indptr[row + 1]; ++e) slots[rows.indices[e]] = -1;
    }
}

// products[c] = <row, column c>, summed in the order of the row's entries.
template <class Real, class Rows>
MERCER_INLINE void sparse_products(const Rows& rows, int64_t row, const int32_t* slots, const Real* dense,
                                   Real* products) {
    VecOf<Real> sums[kSparseVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kSparseVectors; ++v) sums[v] = VecOf<Real>{};
    for (auto e = rows.indptr[row]; e < rows.indptr[row + 1]; ++e) {
        const int32_t slot = slots[rows.indices[e]];
        if (slot < 0) continue;
        const auto value = static_cast<Real>(rows.data[e]);
        const Real* column = dense + int64_t{slot} * kSparseColumns<Real>;
#pragma GCC unroll 8
        for (int v = 0; v < kSparseVectors; ++v) sums[v] += value * load_vector(column + v * kLanesOf<Real>);
    }
#pragma GCC unroll 8
    for (int v = 0; v < kSparseVectors; ++v) store(products + v * kLanesOf<Real>, sums[v]);
}

}  // namespace mercer::MERCER_ISA
