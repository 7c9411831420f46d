// Sums of CSR rows with blocks of CSR columns. Common features (nonzero in many rows) are stored densely: each such
// entry of a row costs one fused multiply-add per vector of columns. Each rare feature has a list of the columns in
// which it is nonzero. Products and norms sum common features first, then rare features, each in the order of features.
#pragma once

#include "gram/feature_sums.hpp"
#include "gram/simd.hpp"
#include "gram/view.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {

constexpr int kSparseVectors = 8;  // vectors of sums in a panel of columns; they stay in registers
constexpr int kSparsePanels = 4;   // panels of a block; a list of columns is read once for all of them
constexpr int kRowsPerPanel = 16;  // rows that use a panel one after the other
// Features of a panel that these rows use at a time; they stay in the L1 cache.
constexpr int32_t kFeaturesAtATime = 128;
template <class Real>
constexpr int kPanelColumns = kSparseVectors * kLanesOf<Real>;
template <class Real>
constexpr int kBlockColumns = kSparsePanels * kPanelColumns<Real>;

template <class S, class I>
struct CsrRows {
    const S* data;
    const I* indices;
    const void* indptr;
    bool wide_indptr;
    const int32_t* places;
    const int64_t* rows;

    explicit CsrRows(const RowsView& view, const int32_t* feature_places)
        : data(static_cast<const S*>(view.csr.data)),
          indices(static_cast<const I*>(view.csr.indices)),
          indptr(view.csr.indptr),
          wide_indptr(view.csr.wide_indptr),
          places(feature_places),
          rows(view.rows) {}

    int64_t start(int64_t row) const {
        return wide_indptr ? static_cast<const int64_t*>(indptr)[row] : static_cast<const int32_t*>(indptr)[row];
    }

    int64_t length(int64_t i) const {
        const int64_t row = rows ? rows[i] : i;
        return start(row + 1) - start(row);
    }

    // Calls use(place, value) for each entry of the i-th row, in the order of features. If `used_features` is not null,
    // only for features whose flag is true.
    template <class Use>
    MERCER_INLINE void for_each(int64_t i, const bool* used_features, Use use) const {
        const int64_t row = rows ? rows[i] : i, end = start(row + 1);
        for (int64_t e = start(row); e < end; ++e)
            if (used_features == nullptr || used_features[indices[e]]) use(places[indices[e]], data[e]);
    }
};

// Calls use(CsrRows) with the types of the view's numbers and indices.
template <class Use>
MERCER_INLINE void with_csr(const RowsView& view, const int32_t* places, Use use) {
    auto indices = [&]<class S>() {
        if (view.csr.wide_indices)
            use(CsrRows<S, int64_t>(view, places));
        else
            use(CsrRows<S, int32_t>(view, places));
    };
    if (view.csr.scalar == Scalar::f32)
        indices.template operator()<float>();
    else
        indices.template operator()<double>();
}

template <class Real>
struct ListEntry {
    int32_t column;  // -1 at the end of a list
    Real value;
};

// Up to kBlockColumns columns, packed for tiles.
template <class Real>
struct SparseBlock {
    Real* common;              // [panel][place][column of the panel]
    Real* norms;               // [pass][column]
    int32_t* features;         // rare features that occur in the block, numbered from 0
    int32_t* starts;           // start of each list in `entries`
    ListEntry<Real>* entries;  // all lists, concatenated
    int32_t n_features;
};

// Packs columns of CSR rows into a block. `heads` is -1 for each rare feature before and after the call.
template <class Real, class Rows>
MERCER_INLINE void pack_block(const Rows& rows, int64_t first, int count, int32_t n_common, int32_t* heads,
                              SparseBlock<Real>& block) {
    constexpr int kColumns = kPanelColumns<Real>;
    for (int64_t i = 0; i < int64_t{n_common} * kBlockColumns<Real>; ++i) block.common[i] = 0;
    int32_t n_features = 0;
    for (int c = 0; c < count; ++c) {
        Real* panel = block.common + int64_t{c / kColumns} * n_common * kColumns + c % kColumns;
        rows.for_each(first + c, nullptr, [&](int32_t place, auto entry) MERCER_LAMBDA_INLINE {
            if (place < n_common) {
                panel[int64_t{place} * kColumns] = static_cast<Real>(entry);
                return;
            }
            int32_t& head = heads[place - n_common];
            if (head < 0) {
                head = n_features++;
                block.features[head] = place - n_common;
                block.starts[head] = 1;  // here the length of the list, with its end mark; later its start
            }
            ++block.starts[head];
        });
    }
    block.n_features = n_features;
    int32_t total = 0;
    for (int32_t f = 0; f < n_features; ++f) {  // lists are filled from their ends
        total += block.starts[f];
        block.starts[f] = total - 1;
        block.entries[total - 1] = {-1, 0};
    }
    for (int c = count - 1; c >= 0; --c)
        rows.for_each(first + c, nullptr, [&](int32_t place, auto entry) MERCER_LAMBDA_INLINE {
            if (place >= n_common)
                block.entries[--block.starts[heads[place - n_common]]] = {c, static_cast<Real>(entry)};
        });
    for (int32_t f = 0; f < n_features; ++f) heads[block.features[f]] = -1;
}

// The norm of a row for one pass. It is summed in the order of the tiles, so that the distance of equal rows is 0.
template <class Real, Pairing kPairing, class Rows>
MERCER_INLINE Real measure_row(const Rows& rows, int64_t i, int32_t n_common, const bool* used_features) {
    Real norm = 0;
    for (const bool rare : {false, true})
        rows.for_each(i, used_features, [&](int32_t place, auto entry) MERCER_LAMBDA_INLINE {
            if ((place >= n_common) == rare) norm = add_to_norm<Real, kPairing>(norm, static_cast<Real>(entry));
        });
    return norm;
}

// A left row for one pass, with its common and rare features separated.
template <class Real>
struct SparseRow {
    const int32_t *common, *rare;
    const Real *common_values, *rare_values;
    int32_t n_common, n_rare;
};

// Packs a row. Each array must have one element more than the row has entries, because writes are branchless.
template <class Real, class Rows>
MERCER_INLINE SparseRow<Real> pack_row(const Rows& rows, int64_t i, int32_t n_common, const bool* used_features,
                                       int32_t* common, int32_t* rare, Real* common_values, Real* rare_values) {
    SparseRow<Real> row{common, rare, common_values, rare_values, 0, 0};
    rows.for_each(i, used_features, [&](int32_t place, auto entry) MERCER_LAMBDA_INLINE {
        const auto value = static_cast<Real>(entry);
        common[row.n_common] = place;
        common_values[row.n_common] = value;
        rare[row.n_rare] = place - n_common;
        rare_values[row.n_rare] = value;
        row.n_common += place < n_common;
        row.n_rare += place >= n_common;
    });
    return row;
}

// The norm of a packed row, summed in the same order.
template <class Real, Pairing kPairing>
MERCER_INLINE Real measure_row(const SparseRow<Real>& row) {
    Real norm = 0;
    for (int32_t e = 0; e < row.n_common; ++e) norm = add_to_norm<Real, kPairing>(norm, row.common_values[e]);
    for (int32_t e = 0; e < row.n_rare; ++e) norm = add_to_norm<Real, kPairing>(norm, row.rare_values[e]);
    return norm;
}

// Returns sum + the shared term of one feature.
template <class Real, Pairing kPairing, class V>
MERCER_INLINE V add_shared(V sum, Real left, V right) {
    if constexpr (kPairing != Pairing::product)
        return sum + shared_term<kPairing>(V{} + left, right);
    else if constexpr (sizeof(V) == sizeof(Real))
        return multiply_add(left, right, sum);
    else
        return sum + left * right;
}

// shared[c] = the sum of the shared terms of a row and column c of the panel over the common features, for several
// rows. kFeaturesAtATime features are processed at a time, so that their part of the panel stays in the L1 cache.
template <class Real, Pairing kPairing>
MERCER_INLINE void add_common(const SparseRow<Real>* rows, int n_rows, const Real* panel, int32_t n_common,
                              Real* shared, int64_t stride) {
    constexpr int kLane = kLanesOf<Real>;
    int32_t entry[kRowsPerPanel] = {};
    for (int32_t end = 0; end == 0 || end < n_common;) {
        const bool begins = end == 0;
        end = n_common - end > kFeaturesAtATime ? end + kFeaturesAtATime : n_common + 1;
        for (int r = 0; r < n_rows; ++r) {
            const SparseRow<Real>& row = rows[r];
            Real* out = shared + r * stride;
            VecOf<Real> sums[kSparseVectors];
#pragma GCC unroll 8
            for (int v = 0; v < kSparseVectors; ++v) sums[v] = begins ? VecOf<Real>{} : load_vector(out + v * kLane);
            int32_t e = entry[r];
            for (; e < row.n_common && row.common[e] < end; ++e) {
                const Real value = row.common_values[e];
                const Real* columns = panel + int64_t{row.common[e]} * kPanelColumns<Real>;
                __asm__("" : "+r"(columns));  // keeps the compiler from storing eight addresses
#pragma GCC unroll 8
                for (int v = 0; v < kSparseVectors; ++v)
                    sums[v] = add_shared<Real, kPairing>(sums[v], value, load_vector(columns + v * kLane));
            }
            entry[r] = e;
#pragma GCC unroll 8
            for (int v = 0; v < kSparseVectors; ++v) store(out + v * kLane, sums[v]);
        }
    }
}

// A rare feature of a row that is also nonzero in some column of the block.
template <class Real>
struct RareMatch {
    int32_t start;  // start of its list
    Real value;
};

// Finds the rare features of a row that are nonzero in some column of the block, and returns their number.
// heads[feature] is the start of the feature's list. The lists are scattered in memory; they are prefetched here and
// read after other sums have been computed. `matches` must have an element for each rare feature of the row.
template <class Real>
MERCER_INLINE int32_t match_rare(const SparseRow<Real>& row, const ListEntry<Real>* entries, const int32_t* heads,
                                 RareMatch<Real>* matches) {
    int32_t n = 0;
    for (int32_t e = 0; e < row.n_rare; ++e) {
        const int32_t start = heads[row.rare[e]];
        matches[n] = {start, row.rare_values[e]};
        n += start >= 0;
    }
    for (int32_t m = 0; m < n; ++m) __builtin_prefetch(entries + matches[m].start);
    return n;
}

// For each column c of the block: adds the shared terms of the row and column c, over the rare features, to shared[c].
template <class Real, Pairing kPairing>
MERCER_INLINE void add_rare(const RareMatch<Real>* matches, int32_t n_matches, const ListEntry<Real>* entries,
                            Real* shared) {
    for (int32_t m = 0; m < n_matches; ++m) {
        const Real value = matches[m].value;
        for (const ListEntry<Real>* at = entries + matches[m].start; at->column >= 0; ++at)
            shared[at->column] = add_shared<Real, kPairing>(shared[at->column], value, at->value);
    }
}

}  // namespace mercer::MERCER_ISA
