// Rows of a table as the solvers that visit one row at a time read them. Sums are in float64. If the table has a column
// of a constant, it is the last column of every row.
#pragma once

#include <cstdint>

#include "rows/chained_sum.hpp"
#include "rows/sparse_rows.hpp"
#include "rows/table.hpp"

namespace mercer {

template <class Number>
class DenseRowReader {
  public:
    explicit DenseRowReader(const LinearTable& table) : table(table) {}

    // Calls see(column, value) for every element of the row.
    template <class See>
    void each(int64_t i, See see) const {
        const Number* row = start(i);
        for (int64_t j = 0; j < table.n_columns; ++j) see(j, static_cast<double>(row[j]));
        if (table.constant != 0.0) see(table.n_columns, table.constant);
    }

    double dot(int64_t i, const double* w) const {
        const Number* row = start(i);
        const double sum =
            baseline::chained_sum<8>(table.n_columns, [=](int64_t j) { return static_cast<double>(row[j]) * w[j]; });
        return table.constant != 0.0 ? sum + table.constant * w[table.n_columns] : sum;
    }

    // ||x||^2
    double square(int64_t i) const {
        const Number* row = start(i);
        return table.constant * table.constant + baseline::chained_sum<8>(table.n_columns, [=](int64_t j) {
                   const auto x = static_cast<double>(row[j]);
                   return x * x;
               });
    }

    bool is_in_range(int64_t) const { return true; }
    void prefetch(int64_t i) const { __builtin_prefetch(start(i)); }

    const LinearTable table;

  private:
    const Number* start(int64_t i) const { return static_cast<const Number*>(table.data) + i * table.stride; }
};

// Canonical CSR rows: every column occurs at most once in a row. Rows must be within the table.
template <class Number, class Index>
class SparseRowReader {
  public:
    explicit SparseRowReader(const LinearTable& table) : table(table), rows_(table) {}

    template <class See>
    void each(int64_t i, See see) const {
        const auto row = rows_.unchecked(i);
        for (int64_t e = 0; e < row.count; ++e)
            see(static_cast<int64_t>(row.columns[e]), static_cast<double>(row.values[e]));
        if (table.constant != 0.0) see(table.n_columns, table.constant);
    }

    double dot(int64_t i, const double* w) const {
        const auto row = rows_.unchecked(i);
        const double sum = baseline::chained_sum<4>(
            row.count, [=](int64_t e) { return static_cast<double>(row.values[e]) * w[row.columns[e]]; });
        return table.constant != 0.0 ? sum + table.constant * w[table.n_columns] : sum;
    }

    double square(int64_t i) const {
        const auto row = rows_.unchecked(i);
        return table.constant * table.constant + baseline::chained_sum<4>(row.count, [=](int64_t e) {
                   const auto x = static_cast<double>(row.values[e]);
                   return x * x;
               });
    }

    bool is_in_range(int64_t i) const { return rows_[i].in_range; }
    void prefetch(int64_t i) const { rows_.prefetch(i); }

    const LinearTable table;

  private:
    baseline::SparseRows<Number, Index> rows_;
};

// Whether every row lies within the table.
template <class Reader>
bool all_in_range(const Reader& rows) {
    bool are_in_range = true;
    for (int64_t i = 0; i < rows.table.n_rows && are_in_range; ++i) are_in_range = rows.is_in_range(i);
    return are_in_range;
}

// Calls visit with a reader of the rows of a table, which are not checked.
template <class Visit>
void with_row_reader(const LinearTable& table, Visit visit) {
    baseline::with_numbers(table, [&]<class Number>(const Number*) {
        if (!table.is_sparse())
            visit(DenseRowReader<Number>(table));
        else if (table.wide_indices)
            visit(SparseRowReader<Number, int64_t>(table));
        else
            visit(SparseRowReader<Number, int32_t>(table));
        return true;
    });
}

}  // namespace mercer
