// Dense rows packed for the inner-product tile: [feature][row], so that a tile reads both operands in order.
#pragma once

#include "mercer/program.hpp"
#include "mercer/scratch.hpp"
#include "mercer/simd.hpp"
#include "mercer/view.hpp"

namespace mercer::MERCER_ISA {

template <class Real>
constexpr int kTileColumns = 2 * kLanesOf<Real>;

template <class Real, class Stored, int Width>
MERCER_INLINE void pack_dense_rows(const RowsView& view, int64_t first, int count, const double* centre, Real* packed) {
    const auto* data = static_cast<const Stored*>(view.dense.data);
    for (int r = 0; r < Width; ++r) {
        if (r >= count) {
            for (int64_t k = 0; k < view.n_features; ++k) packed[k * Width + r] = 0;
            continue;
        }
        const int64_t row = view.rows ? view.rows[first + r] : first + r;
        const Stored* source = data + row * view.dense.row_stride;
        if (centre) {
            for (int64_t k = 0; k < view.n_features; ++k)
                packed[k * Width + r] =
                    static_cast<Real>(static_cast<double>(source[k * view.dense.column_stride]) - centre[k]);
        } else {
            for (int64_t k = 0; k < view.n_features; ++k)
                packed[k * Width + r] = static_cast<Real>(source[k * view.dense.column_stride]);
        }
    }
}

// What a tile needs to know of the rows packed with it: their squared norms, and <centre, x> where there is a centre,
// which turns centred products back into plain ones. All rows at once: a sum waits for its last addition.
template <class Real, int Width>
MERCER_INLINE void measure_packed(const Real* packed, int64_t n_features, const double* centre, double centre_norm,
                                  bool with_norms, Real* norms, Real* offsets) {
    // Norms add the squares in the order in which the tile adds products: the distance between equal rows is 0.
    Real squares[Width] = {};
    for (int64_t k = 0; k < n_features; ++k)
        for (int r = 0; r < Width; ++r)
            squares[r] = multiply_add(packed[k * Width + r], packed[k * Width + r], squares[r]);
    for (int r = 0; r < Width; ++r) norms[r] = with_norms ? squares[r] : 0, offsets[r] = 0;
    if (!centre) return;
    double products[Width] = {};
    for (int64_t k = 0; k < n_features; ++k)
        for (int r = 0; r < Width; ++r)
            products[r] = multiply_add(centre[k], static_cast<double>(packed[k * Width + r]), products[r]);
    for (int r = 0; r < Width; ++r) offsets[r] = static_cast<Real>(products[r] + centre_norm);
}

// Packs `count` <= Width rows from `first` on, minus the centre; the missing ones become zero rows.
template <class Real, int Width>
void pack_dense(const RowsView& view, int64_t first, int count, const double* centre, double centre_norm,
                const Program& program, Real* packed, Real* norms, Real* offsets) {
    if (view.dense.scalar == Scalar::f32)
        pack_dense_rows<Real, float, Width>(view, first, count, centre, packed);
    else
        pack_dense_rows<Real, double, Width>(view, first, count, centre, packed);
    measure_packed<Real, Width>(packed, view.n_features, program.uses(Op::dot) ? centre : nullptr, centre_norm,
                                !program.direct, norms, offsets);
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

// tile[r][c] = -1/2 sum_k (left[k][r] - right[k][c])^2: with norms of 0 it stands for the squared distance itself,
// which loses no digits where rows are much closer to each other than to the centre.
template <class Real>
void distance_tile(const Real* left, const Real* right, int64_t n_features, Real* tile) {
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
            const VecOf<Real> away_low = value - right_low, away_high = value - right_high;
            low[r] += away_low * away_low;
            high[r] += away_high * away_high;
        }
    }
    const Real half = static_cast<Real>(-0.5);
#pragma GCC unroll 12
    for (int r = 0; r < kTileRows; ++r) {
        store(tile + r * kColumns, half * low[r]);
        store(tile + r * kColumns + kLane, half * high[r]);
    }
}

}  // namespace mercer::MERCER_ISA
