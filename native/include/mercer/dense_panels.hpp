// Dense rows packed for the inner-product tile: [feature][row], so that a tile reads both operands in order.
#pragma once

#include "mercer/scratch.hpp"
#include "mercer/simd.hpp"
#include "mercer/view.hpp"

namespace mercer::MERCER_ISA {

template <class Real>
constexpr int kTileColumns = 2 * kLanesOf<Real>;

template <class Real, class Stored>
MERCER_INLINE void pack_dense_rows(const RowsView& view, int64_t first, int count, int width, const double* centre,
                                   Real* packed, Real* norms, Real* offsets) {
    const auto* data = static_cast<const Stored*>(view.dense.data);
    for (int r = 0; r < width; ++r) {
        // Norms add the squares in the order in which the tile adds products: the distance between equal rows is 0.
        Real norm = 0;
        double offset = 0.0;
        if (r < count) {
            const int64_t row = view.rows ? view.rows[first + r] : first + r;
            const Stored* source = data + row * view.dense.row_stride;
            for (int64_t k = 0; k < view.n_features; ++k) {
                double value = static_cast<double>(source[k * view.dense.column_stride]);
                if (centre) {
                    offset += centre[k] * value;
                    value -= centre[k];
                }
                const Real rounded = static_cast<Real>(value);
                packed[k * width + r] = rounded;
                norm = multiply_add(rounded, rounded, norm);
            }
        } else {
            for (int64_t k = 0; k < view.n_features; ++k) packed[k * width + r] = 0;
        }
        norms[r] = norm;
        offsets[r] = static_cast<Real>(offset);
    }
}

// Packs `count` <= `width` rows from `first` on, minus the centre; the missing ones become zero rows.
// norms: squared norms of what is packed; offsets: <centre, x>, which turns centred products back into plain ones.
template <class Real>
void pack_dense(const RowsView& view, int64_t first, int count, int width, const double* centre, Real* packed,
                Real* norms, Real* offsets) {
    if (view.dense.scalar == Scalar::f32)
        pack_dense_rows<Real, float>(view, first, count, width, centre, packed, norms, offsets);
    else
        pack_dense_rows<Real, double>(view, first, count, width, centre, packed, norms, offsets);
}

// tile[r][c] = sum_k left[k][r] right[k][c], every element summed in the order of k.
template <class Real>
void dense_tile(const Real* left, const Real* right, int64_t n_features, Real* tile) {
    constexpr int kLane = kLanesOf<Real>, kColumns = kTileColumns<Real>;
    VecOf<Real> low[kTileRows], high[kTileRows];
#pragma GCC unroll 12
    for (int r = 0; r < kTileRows; ++r) low[r] = high[r] = VecOf<Real>{};
    for (int64_t k = 0; k < n_features; ++k) {
        const VecOf<Real> right_low = load_vector(right + k * kColumns);
        const VecOf<Real> right_high = load_vector(right + k * kColumns + kLane);
#pragma GCC unroll 12
        for (int r = 0; r < kTileRows; ++r) {
            const Real value = left[k * kTileRows + r];
            low[r] += value * right_low;
            high[r] += value * right_high;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < kTileRows; ++r) {
        store(tile + r * kColumns, low[r]);
        store(tile + r * kColumns + kLane, high[r]);
    }
}

}  // namespace mercer::MERCER_ISA
