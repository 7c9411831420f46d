// Rows of a table as the solvers that visit one row at a time use them: dense in C order, or CSR. Sums are in float64.
#pragma once

#include <cstdint>

namespace mercer {

// Rows in C order. `stride` is the distance between two rows, in elements.
template <class Value>
struct DenseRows {
    const Value* values;
    int64_t n, p, stride;

    // Calls see(column, value) for every element of the row.
    template <class See>
    void each(int64_t i, See see) const {
        const Value* row = values + i * stride;
        for (int64_t j = 0; j < p; ++j) see(j, static_cast<double>(row[j]));
    }

    double dot(int64_t i, const double* w) const {
        const Value* row = values + i * stride;
        double sums[8] = {};
        int64_t j = 0;
        for (; j + 8 <= p; j += 8)
            for (int k = 0; k < 8; ++k) sums[k] += static_cast<double>(row[j + k]) * w[j + k];
        for (; j < p; ++j) sums[0] += static_cast<double>(row[j]) * w[j];
        return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    }

    void prefetch(int64_t i) const { __builtin_prefetch(values + i * stride); }
};

// Canonical CSR rows: every column occurs at most once in a row.
template <class Value, class Index, class End>
struct SparseRows {
    const Value* values;
    const Index* columns;
    const End* ends;  // ends[i] is the first entry of row i, and ends[i + 1] follows its last one
    int64_t n, p;

    template <class See>
    void each(int64_t i, See see) const {
        for (auto at = ends[i]; at < ends[i + 1]; ++at)
            see(static_cast<int64_t>(columns[at]), static_cast<double>(values[at]));
    }

    double dot(int64_t i, const double* w) const {
        double sums[4] = {};
        auto at = static_cast<int64_t>(ends[i]);
        const auto end = static_cast<int64_t>(ends[i + 1]);
        for (; at + 4 <= end; at += 4)
            for (int k = 0; k < 4; ++k) sums[k] += static_cast<double>(values[at + k]) * w[columns[at + k]];
        for (; at < end; ++at) sums[0] += static_cast<double>(values[at]) * w[columns[at]];
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }

    void prefetch(int64_t i) const {
        constexpr int64_t kLine = 64;  // bytes of a cache line
        const auto first = static_cast<int64_t>(ends[i]), end = static_cast<int64_t>(ends[i + 1]);
        for (int64_t at = first; at < end; at += kLine / static_cast<int64_t>(sizeof(Value)))
            __builtin_prefetch(values + at);
        for (int64_t at = first; at < end; at += kLine / static_cast<int64_t>(sizeof(Index)))
            __builtin_prefetch(columns + at);
    }
};

}  // namespace mercer
