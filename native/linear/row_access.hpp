// Rows of a table as the solvers that visit one row at a time use them: dense in C order, or CSR. Sums are in float64.
// If the table has a column of a constant, it is the last column of every row.
#pragma once

#include <cstdint>

#include "linear/table.hpp"

namespace mercer {

// Rows in C order. `stride` is the distance between two rows, in elements.
template <class Value>
struct DenseRows {
    const Value* values;
    int64_t n, p, stride;
    double constant;

    // Calls see(column, value) for every element of the row.
    template <class See>
    void each(int64_t i, See see) const {
        const Value* row = values + i * stride;
        for (int64_t j = 0; j < p; ++j) see(j, static_cast<double>(row[j]));
        if (constant != 0.0) see(p, constant);
    }

    double dot(int64_t i, const double* w) const {
        const Value* row = values + i * stride;
        double sums[8] = {};
        int64_t j = 0;
        for (; j + 8 <= p; j += 8)
            for (int k = 0; k < 8; ++k) sums[k] += static_cast<double>(row[j + k]) * w[j + k];
        for (; j < p; ++j) sums[0] += static_cast<double>(row[j]) * w[j];
        if (constant != 0.0) sums[1] += constant * w[p];
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
    double constant;

    template <class See>
    void each(int64_t i, See see) const {
        for (auto at = ends[i]; at < ends[i + 1]; ++at)
            see(static_cast<int64_t>(columns[at]), static_cast<double>(values[at]));
        if (constant != 0.0) see(p, constant);
    }

    double dot(int64_t i, const double* w) const {
        double sums[4] = {};
        auto at = static_cast<int64_t>(ends[i]);
        const auto end = static_cast<int64_t>(ends[i + 1]);
        for (; at + 4 <= end; at += 4)
            for (int k = 0; k < 4; ++k) sums[k] += static_cast<double>(values[at + k]) * w[columns[at + k]];
        for (; at < end; ++at) sums[0] += static_cast<double>(values[at]) * w[columns[at]];
        if (constant != 0.0) sums[1] += constant * w[p];
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

// Whether every row of a CSR table lies within the table.
template <class Rows>
bool in_range(const Rows& rows, int64_t n_entries) {
    int64_t last = 0;
    for (int64_t i = 0; i <= rows.n; ++i) {
        const auto end = static_cast<int64_t>(rows.ends[i]);
        if (end < last || end > n_entries) return false;
        last = end;
    }
    bool found = true;
    for (auto at = static_cast<int64_t>(rows.ends[0]); at < last; ++at)
        found &= rows.columns[at] >= 0 && static_cast<int64_t>(rows.columns[at]) < rows.p;
    return found;
}

// Calls visit(rows) with the rows of a table; returns false, without a call, if a CSR table has indices out of range.
template <class Value, class Visit>
bool with_rows_of(const LinearTable& table, Visit visit) {
    const auto* values = static_cast<const Value*>(table.data);
    if (!table.is_sparse()) {
        visit(DenseRows<Value>{values, table.n_rows, table.n_columns, table.stride, table.constant});
        return true;
    }
    const auto of_index = [&]<class Index, class End>(const Index*, const End* ends) {
        const SparseRows<Value, Index, End> rows{
            values, static_cast<const Index*>(table.indices), ends, table.n_rows, table.n_columns, table.constant};
        const bool found = in_range(rows, table.n_entries);
        if (found) visit(rows);
        return found;
    };
    const auto of_end = [&]<class Index>(const Index* type) {
        return table.wide_indptr ? of_index(type, static_cast<const int64_t*>(table.indptr))
                                 : of_index(type, static_cast<const int32_t*>(table.indptr));
    };
    return table.wide_indices ? of_end(static_cast<const int64_t*>(nullptr))
                              : of_end(static_cast<const int32_t*>(nullptr));
}

template <class Visit>
bool with_rows(const LinearTable& table, Visit visit) {
    switch (table.value) {
        case LinearTable::Value::f32:
            return with_rows_of<float>(table, visit);
        case LinearTable::Value::f64:
            return with_rows_of<double>(table, visit);
        case LinearTable::Value::i8:
            return with_rows_of<int8_t>(table, visit);
        default:
            return with_rows_of<uint8_t>(table, visit);
    }
}

}  // namespace mercer
