// Dense rows packed for the inner-product tile: [feature][row], so that a tile reads both operands in order.
#pragma once

#include "mercer/scratch.hpp"
#include "mercer/simd.hpp"
#include "mercer/view.hpp"

namespace mercer::MERCER_ISA {

constexpr int kTileColumns = 2 * kLanes;

template <class S>
MERCER_INLINE void pack_dense_rows(const RowsView& view, int64_t first, int count, int width, const double* centre,
                                   double* packed, double* norms, double* offsets) {
    const auto* data = static_cast<const S*>(view.dense.data);
    for (int r = 0; r < width; ++r) {
        // Norms add the squares in the order and with the rounding of the tile: the distance of equal rows is 0.
        double norm = 0.0, offset = 0.0;
        if (r < count) {
            const int64_t row = view.rows ? view.rows[first + r] : first + r;
            const S* source = data + row * view.dense.row_stride;
            for (int64_t k = 0; k < view.n_features; ++k) {
                double value = static_cast<double>(source[k * view.dense.column_stride]);
                if (centre) {
                    offset += centre[k] * value;
                    value -= centre[k];
                }
                packed[k * width + r] = value;
                norm = multiply_add(value, value, norm);
            }
        } else {
            for (int64_t k = 0; k < view.n_features; ++k) packed[k * width + r] = 0.0;
        }
        norms[r] = norm;
        offsets[r] = offset;
    }
}

// Packs `count` <= `width` rows from `first` on, minus the centre; the missing ones become zero rows.
// norms: squared norms of what is packed; offsets: <centre, x>, which turns centred products back into plain ones.
inline void pack_dense(const RowsView& view, int64_t first, int count, int width, const double* centre, double* packed,
                       double* norms, double* offsets) {
    if (view.dense.scalar == Scalar::f32)
        pack_dense_rows<float>(view, first, count, width, centre, packed, norms, offsets);
    else
        pack_dense_rows<double>(view, first, count, width, centre, packed, norms, offsets);
}

// tile[r][c] = sum_k left[k][r] right[k][c], every element summed in the order of k.
inline void dense_tile(const double* left, const double* right, int64_t n_features, double* tile) {
    Vec low[kTileRows], high[kTileRows];
#pragma GCC unroll 12
    for (int r = 0; r < kTileRows; ++r) low[r] = high[r] = Vec{};
    for (int64_t k = 0; k < n_features; ++k) {
        const Vec right_low = load(right + k * kTileColumns);
        const Vec right_high = load(right + k * kTileColumns + kLanes);
#pragma GCC unroll 12
        for (int r = 0; r < kTileRows; ++r) {
            const double value = left[k * kTileRows + r];
            low[r] += value * right_low;
            high[r] += value * right_high;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < kTileRows; ++r) {
        store(tile + r * kTileColumns, low[r]);
        store(tile + r * kTileColumns + kLanes, high[r]);
    }
}

}  // namespace mercer::MERCER_ISA
