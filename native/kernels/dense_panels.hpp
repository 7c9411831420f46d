// Dense rows packed for the inner-product tile: [feature][row], so that a tile reads both operands in order.
#pragma once

#include "kernels/feature_sums.hpp"
#include "kernels/program.hpp"
#include "kernels/simd.hpp"
#include "kernels/view.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {

template <class Real>
constexpr int kTileColumns = 2 * kLanesOf<Real>;

// Inner products are sums of sums of so many terms: a term then passes through p / 64 + 64 roundings rather than p, and
// single precision settles more (src/mercer/gram/rounding.py has the same number). It costs a hundredth of the
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
MERCER_INLINE void pack_dense_rows(const RowsView& view, int64_t first, int count, const Stored* data,
                                   int64_t row_stride, int64_t stride, int64_t n_features, const double* centre,
                                   Real* packed) {
    constexpr int kLane = kLanesOf<Real>;
    Real staged[Width * kStagedFeatures];
    for (int j = count * kStagedFeatures; j < Width * kStagedFeatures; ++j) staged[j] = 0;
    for (int64_t k = 0; k < n_features; k += kStagedFeatures) {
        const int64_t left = n_features - k;
        const int n_staged = left < kStagedFeatures ? static_cast<int>(left) : kStagedFeatures;
        for (int r = 0; r < count; ++r) {
            stage_row(data + view.row(first + r) * row_stride + k * stride, stride, centre ? centre + k : nullptr,
                      n_staged, staged + r * kStagedFeatures);
        }
        for (int j = 0; j < n_staged; j += kLane)
            turn_staged<Real, 0, Width>(staged + j, n_staged - j, packed + (k + j) * Width);
    }
}

// As many rows side by side as divide a width and fit into a vector of so many lanes.
template <class Real, int Width, int Lanes>
struct SideBySide {
    static constexpr int kRows = (Width & -Width) < Lanes ? (Width & -Width) : Lanes, kVectors = Width / kRows;
    using Vector __attribute__((vector_size(kRows * sizeof(Real)))) = Real;

    static MERCER_INLINE Vector load(const Real* rows) {
        Vector some;
        __builtin_memcpy(&some, rows, sizeof(some));
        return some;
    }
};

// Norms add the squares in the order in which the tile adds products: the distance between equal rows is 0.
template <class Real, int Width>
MERCER_INLINE void measure_norms(const Real* packed, const int32_t* columns, int64_t count, Real* norms) {
    using Rows = SideBySide<Real, Width, kLanesOf<Real>>;
    typename Rows::Vector totals[Rows::kVectors] = {};
    for (int64_t first = 0; first < count; first += kTermsPerSum) {
        const int64_t last = first + kTermsPerSum < count ? first + kTermsPerSum : count;
        typename Rows::Vector squares[Rows::kVectors] = {};
        for (int64_t k = first; k < last; ++k) {
            const Real* feature = packed + (columns ? columns[k] : k) * Width;
#pragma GCC unroll 8
            for (int v = 0; v < Rows::kVectors; ++v) {
                const auto some = Rows::load(feature + v * Rows::kRows);
                squares[v] = squares[v] + some * some;
            }
        }
#pragma GCC unroll 8
        for (int v = 0; v < Rows::kVectors; ++v) totals[v] += squares[v];
    }
    __builtin_memcpy(norms, totals, sizeof(totals));
}

// <centre, x>, which turns centred products back into plain ones, where x is what is packed plus the centre.
template <class Real, int Width>
MERCER_INLINE void measure_offsets(const Real* packed, const int32_t* columns, int64_t count, const double* centre,
                                   double centre_norm, Real* offsets) {
    using Rows = SideBySide<Real, Width, kLanes>;
    using Wide = SideBySide<double, Width, kLanes>;
    typename Wide::Vector products[Wide::kVectors] = {};
    for (int64_t k = 0; k < count; ++k) {
        const int64_t at = columns ? columns[k] : k;
#pragma GCC unroll 8
        for (int v = 0; v < Wide::kVectors; ++v)
            products[v] =
                products[v] + centre[at] * __builtin_convertvector(Rows::load(packed + at * Width + v * Rows::kRows),
                                                                   typename Wide::Vector);
    }
#pragma GCC unroll 8
    for (int v = 0; v < Wide::kVectors; ++v)
        for (int r = 0; r < Wide::kRows; ++r)
            offsets[v * Wide::kRows + r] = static_cast<Real>(products[v][r] + centre_norm);
}

// What a tile needs to know of the rows packed with it, for one pass: their squared norms, and offsets where there is a
// centre. All rows at once: a sum waits for its last addition.
template <class Real, int Width>
MERCER_INLINE void measure_packed(const Real* packed, int64_t n_features, const double* centre, double centre_norm,
                                  const Pass& pass, Real* norms, Real* offsets) {
    const int64_t count = pass.columns ? pass.n_columns : n_features;
    if (pass.with_norms)
        measure_norms<Real, Width>(packed, pass.columns, count, norms);
    else
        for (int r = 0; r < Width; ++r) norms[r] = 0;
    if (centre && pass.with_offsets)
        measure_offsets<Real, Width>(packed, pass.columns, count, centre, centre_norm, offsets);
    else
        for (int r = 0; r < Width; ++r) offsets[r] = 0;
}

// Packs `count` <= Width rows from `first` on, minus the centre; the missing ones become zero rows.
// What is measured of them for the q-th pass begins at q * stride.
template <class Real, int Width>
void pack_dense(const RowsView& view, int64_t first, int count, const double* centre, const double* centre_norms,
                const Program& program, Real* packed, Real* norms, Real* offsets, int64_t stride) {
    const DenseView& dense = view.dense;
    auto pack = [&]<class Stored>(const Stored* data) MERCER_LAMBDA_INLINE {
        pack_dense_rows<Real, Stored, Width>(view, first, count, data, dense.row_stride, dense.column_stride,
                                             view.n_features, centre, packed);
    };
    if (dense.scalar == Scalar::f32)
        pack(static_cast<const float*>(dense.data));
    else
        pack(static_cast<const double*>(dense.data));
    for (int q = 0; q < program.n_passes; ++q)
        measure_packed<Real, Width>(packed, view.n_features, centre, centre_norms[q], program.passes[q],
                                    norms + q * stride, offsets + q * stride);
}

// tile[r][c] = sum_k of the terms of left[k][r] and right[k][c], every element summed in the order of k, kTermsPerSum
// at a time. Of distances and sums, -1/2 of that: with norms of 0 it stands for the distance itself.
template <class Real, Pairing kPairing, bool kChosen>
void pair_tile(const Real* left, const Real* right, const int32_t* columns, int64_t n_columns, Real* tile) {
    constexpr bool kPlain = kPairing == Pairing::product || kPairing == Pairing::minimum;
    const Real factor = kPlain ? Real{1} : static_cast<Real>(-0.5);
    constexpr int kLane = kLanesOf<Real>, kColumns = kTileColumns<Real>;
    int64_t j = 0;
    do {
        const int64_t last = j + kTermsPerSum < n_columns ? j + kTermsPerSum : n_columns;
        const bool adds = j > 0;
        VecOf<Real> low[kTileRows], high[kTileRows];
#pragma GCC unroll 12
        for (int r = 0; r < kTileRows; ++r) low[r] = high[r] = VecOf<Real>{};
        for (; j < last; ++j) {
            const int64_t k = kChosen ? columns[j] : j;
            const VecOf<Real> right_low = load_vector(right + k * kColumns);
            const VecOf<Real> right_high = load_vector(right + k * kColumns + kLane);
#pragma GCC unroll 12
            for (int r = 0; r < kTileRows; ++r) {
                const Real value = left[k * kTileRows + r];
                low[r] = add_term<Real, kPairing>(low[r], value, right_low);
                high[r] = add_term<Real, kPairing>(high[r], value, right_high);
            }
        }
#pragma GCC unroll 12
        for (int r = 0; r < kTileRows; ++r) {
            Real* out = tile + r * kColumns;
            const VecOf<Real> one = kPlain ? low[r] : factor * low[r], two = kPlain ? high[r] : factor * high[r];
            store(out, adds ? load_vector(out) + one : one);
            store(out + kLane, adds ? load_vector(out + kLane) + two : two);
        }
    } while (j < n_columns);
}

template <class Real>
MERCER_INLINE void pair_tile_of(const Pass& pass, const Real* left, const Real* right, int64_t n_features, Real* tile) {
    with_pairing(pass.pairing, [&]<Pairing kPairing>() MERCER_LAMBDA_INLINE {
        if (pass.columns)
            pair_tile<Real, kPairing, true>(left, right, pass.columns, pass.n_columns, tile);
        else
            pair_tile<Real, kPairing, false>(left, right, nullptr, n_features, tile);
    });
}

}  // namespace mercer::MERCER_ISA
