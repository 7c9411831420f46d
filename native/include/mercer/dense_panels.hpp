// Dense rows packed for the inner-product tile: [feature][row], so that a tile reads both operands in order.
#pragma once

#include "mercer/program.hpp"
#include "mercer/scratch.hpp"
#include "mercer/simd.hpp"
#include "mercer/view.hpp"

namespace mercer::MERCER_ISA {

template <class Real>
constexpr int kTileColumns = 2 * kLanesOf<Real>;

// Inner products are sums of sums of so many terms: a term then passes through p / 64 + 64 roundings rather than p, and
// single precision settles more (src/mercer/backends/rounding.py has the same number). It costs a hundredth of the
// time.
constexpr int64_t kTermsPerSum = 64;

constexpr int kStagedFeatures = 64;  // a multiple of every vector's lanes: what is staged stays in the nearest cache

// staged[j] = row[j] - centre[j], in this precision; zeros up to a whole number of vectors.
template <class Real, class Stored>
MERCER_INLINE void stage_row(const Stored* row, int64_t stride, const double* centre, int n_features, Real* staged) {
    if (stride != 1)
        for (int j = 0; j < n_features; ++j)
            staged[j] = static_cast<Real>(static_cast<double>(row[j * stride]) - (centre ? centre[j] : 0.0));
    else if (centre)
        for (int j = 0; j < n_features; ++j) staged[j] = static_cast<Real>(static_cast<double>(row[j]) - centre[j]);
    else
        for (int j = 0; j < n_features; ++j) staged[j] = static_cast<Real>(row[j]);
    for (int j = n_features; j % kLanesOf<Real> != 0; ++j) staged[j] = 0;
}

// packed[feature][First + r] = staged[First + r][feature], for as many rows and features as a vector has lanes.
template <class Real, int First, int Width>
MERCER_INLINE void turn_staged(const Real* staged, int n_features, Real* packed) {
    constexpr int kLane = kLanesOf<Real>, kRows = Width - First < kLane ? Width - First : kLane;
    VecOf<Real> rows[kLane];
#pragma GCC unroll 16
    for (int r = 0; r < kLane; ++r)
        rows[r] = r < kRows ? load_vector(staged + (First + r) * kStagedFeatures) : VecOf<Real>{};
    turn<Real>(rows);
#pragma GCC unroll 16
    for (int k = 0; k < kLane; ++k)
        if (k < n_features) __builtin_memcpy(packed + k * Width + First, &rows[k], kRows * sizeof(Real));
    if constexpr (First + kRows < Width) turn_staged<Real, First + kRows, Width>(staged, n_features, packed);
}

template <class Real, class Stored, int Width>
MERCER_INLINE void pack_dense_rows(const RowsView& view, int64_t first, int count, const double* centre, Real* packed) {
    constexpr int kLane = kLanesOf<Real>;
    const auto* data = static_cast<const Stored*>(view.dense.data);
    const int64_t stride = view.dense.column_stride;
    Real staged[Width * kStagedFeatures];
    for (int j = count * kStagedFeatures; j < Width * kStagedFeatures; ++j) staged[j] = 0;
    for (int64_t k = 0; k < view.n_features; k += kStagedFeatures) {
        const int64_t left = view.n_features - k;
        const int n_features = left < kStagedFeatures ? static_cast<int>(left) : kStagedFeatures;
        for (int r = 0; r < count; ++r) {
            const int64_t row = view.rows ? view.rows[first + r] : first + r;
            stage_row(data + row * view.dense.row_stride + k * stride, stride, centre ? centre + k : nullptr,
                      n_features, staged + r * kStagedFeatures);
        }
        for (int j = 0; j < n_features; j += kLane)
            turn_staged<Real, 0, Width>(staged + j, n_features - j, packed + (k + j) * Width);
    }
}

// What a tile needs to know of the rows packed with it: their squared norms, and <centre, x> where there is a centre,
// which turns centred products back into plain ones. All rows at once: a sum waits for its last addition.
template <class Real, int Width>
MERCER_INLINE void measure_packed(const Real* packed, int64_t n_features, const double* centre, double centre_norm,
                                  bool with_norms, Real* norms, Real* offsets) {
    // Norms add the squares in the order in which the tile adds products: the distance between equal rows is 0.
    for (int r = 0; r < Width; ++r) norms[r] = offsets[r] = 0;
    for (int64_t first = 0; with_norms && first < n_features; first += kTermsPerSum) {
        const int64_t last = first + kTermsPerSum < n_features ? first + kTermsPerSum : n_features;
        Real squares[Width] = {};
        for (int64_t k = first; k < last; ++k)
            for (int r = 0; r < Width; ++r)
                squares[r] = multiply_add(packed[k * Width + r], packed[k * Width + r], squares[r]);
        for (int r = 0; r < Width; ++r) norms[r] += squares[r];
    }
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

// tile[r][c] = sum_k left[k][r] right[k][c], every element summed in the order of k, kTermsPerSum at a time.
template <class Real>
void dense_tile(const Real* left, const Real* right, int64_t n_features, Real* tile) {
    constexpr int kLane = kLanesOf<Real>, kColumns = kTileColumns<Real>;
    int64_t k = 0;
    do {
        const int64_t last = k + kTermsPerSum < n_features ? k + kTermsPerSum : n_features;
        const bool adds = k > 0;
        VecOf<Real> low[kTileRows], high[kTileRows];
#pragma GCC unroll 12
        for (int r = 0; r < kTileRows; ++r) low[r] = high[r] = VecOf<Real>{};
        for (; k < last; ++k) {
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
            Real* out = tile + r * kColumns;
            store(out, adds ? load_vector(out) + low[r] : low[r]);
            store(out + kLane, adds ? load_vector(out + kLane) + high[r] : high[r]);
        }
    } while (k < n_features);
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
