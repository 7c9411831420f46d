// Packs dense rows for the inner-product tile as [feature][row], so that a tile reads both operands sequentially.
#pragma once

#include "gram/feature_sums.hpp"
#include "gram/program.hpp"
#include "gram/simd.hpp"
#include "gram/view.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {

template <class Real>
constexpr int kTileColumns = 2 * kLanesOf<Real>;

// Number of terms in a partial sum. An inner product of p terms adds up p / 64 partial sums, so that a term is
// rounded at most p / 64 + 64 times instead of p times. The rounding bounds of src/mercer/gram/rounding.py use the same
// number.
constexpr int64_t kTermsPerSum = 64;

// Number of features that are staged at a time: a multiple of the lanes of every vector type, and small enough for the
// L1 cache.
constexpr int kStagedFeatures = 64;

// staged[j] = row[j] - centre[j], rounded to Real. Zeros fill the last vector.
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

// Transposes staged rows: packed[feature][First + r] = staged[First + r][feature]. One call handles a square of
// kLanesOf<Real> rows and features, and recursion handles the rows after it.
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

// A vector over adjacent packed rows. Its length is the largest power of two that divides Width, but at most Lanes.
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

// Squared norms, or sums of entries. They are summed in the order in which the tile sums products or minima, so that
// the distance between equal rows is exactly 0.
template <class Real, int Width, bool kSquares>
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
                squares[v] = squares[v] + (kSquares ? some * some : some);
            }
        }
#pragma GCC unroll 8
        for (int v = 0; v < Rows::kVectors; ++v) totals[v] += squares[v];
    }
    __builtin_memcpy(norms, totals, sizeof(totals));
}

// offsets[r] = <centre, x_r> for the original row x_r (the packed row plus the centre). These offsets convert inner
// products of centred rows to inner products of the original rows.
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

// Computes what a tile needs for one pass besides the packed rows: their norms and, with a centre, their offsets. All
// rows are processed side by side, because a single sum would wait for the latency of each addition.
template <class Real, int Width>
MERCER_INLINE void measure_packed(const Real* packed, int64_t n_features, const double* centre, double centre_norm,
                                  const Pass& pass, Real* norms, Real* offsets) {
    const int64_t count = pass.columns ? pass.n_columns : n_features;
    if (pass.with_norms && pass.pairing == Pairing::minimum)
        measure_norms<Real, Width, false>(packed, pass.columns, count, norms);
    else if (pass.with_norms)
        measure_norms<Real, Width, true>(packed, pass.columns, count, norms);
    else
        for (int r = 0; r < Width; ++r) norms[r] = 0;
    if (centre && pass.with_offsets)
        measure_offsets<Real, Width>(packed, pass.columns, count, centre, centre_norm, offsets);
    else
        for (int r = 0; r < Width; ++r) offsets[r] = 0;
}

// Packs `count` <= Width rows, beginning with row `first`, minus the centre. Zero rows fill up to Width. The norms and
// offsets for pass q begin at index q * stride.
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

// tile[r][c] = the sum over k of the term of left[k][r] and right[k][c]. Terms are summed in the order of k,
// kTermsPerSum to a partial sum. Distances and Pairing::sum are multiplied by -1/2: run_program then computes norm +
// norm - 2 tile with norms of 0.
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
