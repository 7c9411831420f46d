// Rows of a CSR table.
#pragma once

#include <type_traits>

#include "rows/numbers.hpp"

namespace mercer::MERCER_ISA {

template <class Number, class Index>
struct SparseRow {
    const Number* values;
    const Index* columns;
    int64_t count;
    bool in_range;  // whether the row lies within the table; its count is 0 otherwise
};

template <class Number, class Index>
class SparseRows {
  public:
    static constexpr bool kIsSparse = true;

    explicit SparseRows(const LinearTable& table)
        : n_rows(table.n_rows),
          n_columns(table.n_columns),
          values_(static_cast<const Number*>(table.data)),
          columns_(static_cast<const Index*>(table.indices)),
          starts_(table.indptr),
          wide_(table.wide_indptr),
          n_entries_(table.n_entries) {}

    // The indices are checked each time, because other code may have changed them since they were validated.
    MERCER_INLINE SparseRow<Number, Index> operator[](int64_t i) const {
        const int64_t first = start(i), last = start(i + 1);
        if (first < 0 || last < first || last > n_entries_) return {nullptr, nullptr, 0, false};
        const Index* columns = columns_ + first;
        using Unsigned = std::make_unsigned_t<Index>;
        Unsigned largest = 0;  // negative indices are large as unsigned numbers
        for (int64_t e = 0; e < last - first; ++e) {
            const auto column = static_cast<Unsigned>(columns[e]);
            largest = column > largest ? column : largest;
        }
        if (last > first && static_cast<uint64_t>(largest) >= static_cast<uint64_t>(n_columns))
            return {nullptr, nullptr, 0, false};
        return {values_ + first, columns, last - first, true};
    }

    // For rows that are known to be within the table.
    MERCER_INLINE SparseRow<Number, Index> unchecked(int64_t i) const {
        const int64_t first = start(i);
        return {values_ + first, columns_ + first, start(i + 1) - first, true};
    }

    void prefetch(int64_t i) const {
        constexpr int64_t kLine = 64;  // bytes of a cache line
        const int64_t first = start(i), last = start(i + 1);
        if (first < 0 || last > n_entries_) return;
        for (int64_t e = first; e < last; e += kLine / static_cast<int64_t>(sizeof(Number)))
            __builtin_prefetch(values_ + e);
        for (int64_t e = first; e < last; e += kLine / static_cast<int64_t>(sizeof(Index)))
            __builtin_prefetch(columns_ + e);
    }

    double mean_count() const {
        return n_rows > 0 ? static_cast<double>(n_entries_) / static_cast<double>(n_rows) : 0.0;
    }

    const int64_t n_rows, n_columns;

  private:
    int64_t start(int64_t i) const {
        return wide_ ? static_cast<const int64_t*>(starts_)[i] : static_cast<const int32_t*>(starts_)[i];
    }

    const Number* values_;
    const Index* columns_;
    const void* starts_;
    bool wide_;
    int64_t n_entries_;
};

// Calls visit with the rows of a CSR table.
template <class Visit>
bool with_sparse_rows(const LinearTable& table, Visit visit) {
    return with_numbers(table, [&]<class Number>(const Number*) {
        return table.wide_indices ? visit(SparseRows<Number, int64_t>(table))
                                  : visit(SparseRows<Number, int32_t>(table));
    });
}

}  // namespace mercer::MERCER_ISA
