// Sums of squares of the columns of a table, compiled once per instruction set (see simd.hpp).
#include "rows/dense_rows.hpp"
#include "rows/row_groups.hpp"
#include "rows/sparse_rows.hpp"
#include "rows/sweeps.hpp"

namespace mercer::MERCER_ISA {

namespace {

// Each group of rows has sums of its own, which are added in order.
template <class Rows>
struct SquaresJob {
    const Rows& rows;
    double* sums;  // of all groups
    int64_t height, padded;
    bool in_range;
};

template <class Number>
void add_squares(const DenseRows<Number>& rows, SquaresJob<DenseRows<Number>>&, int64_t i, double* sums) {
    const Number* row = rows[i];
    for (int64_t j = 0; j < rows.n_padded; j += kLanes) {
        const Vec x = load_numbers(row + j);
        store(sums + j, multiply_add(x, x, load(sums + j)));
    }
}

template <class Number, class Index>
void add_squares(const SparseRows<Number, Index>& rows, SquaresJob<SparseRows<Number, Index>>& job, int64_t i,
                 double* sums) {
    const auto row = rows[i];
    if (!row.in_range) __atomic_store_n(&job.in_range, false, __ATOMIC_RELAXED);
    for (int64_t e = 0; e < row.count; ++e) {
        const auto x = static_cast<double>(row.values[e]);
        sums[row.columns[e]] += x * x;
    }
}

template <class Rows>
void squares_task(void* context, int64_t group) {
    auto& job = *static_cast<SquaresJob<Rows>*>(context);
    double* sums = job.sums + group * job.padded;
    for (int64_t j = 0; j < job.padded; ++j) sums[j] = 0.0;
    const int64_t begin = group * job.height,
                  end = begin + job.height < job.rows.n_rows ? begin + job.height : job.rows.n_rows;
    for (int64_t i = begin; i < end; ++i) add_squares(job.rows, job, i, sums);
}

template <class Rows>
bool square_columns(const Rows& rows, const LinearTable& table, double count, double* out, int n_threads) {
    const int64_t n = table.n_rows, p = table.n_columns, padded = round_up(p, kLanes);
    const double work = static_cast<double>(n) * count / (kGroupWork + 8.0 * static_cast<double>(padded));
    const int64_t most = work < 1.0 ? 1 : work > kMostGroups ? kMostGroups : static_cast<int64_t>(work);
    const int64_t height = n > 0 ? (n + most - 1) / most : 1, n_groups = (n + height - 1) / height;
    Scratch memory(sizeof(double) * static_cast<std::size_t>(n_groups * padded + 1));
    SquaresJob<Rows> job{rows, memory.as<double>(), height, padded, true};
    parallel_for(n_groups, n_threads, squares_task<Rows>, &job);
    for (int64_t j = 0; j < p; ++j) {
        out[j] = 0.0;
        for (int64_t g = 0; g < n_groups; ++g) out[j] += job.sums[g * padded + j];
    }
    if (table.width() > p) out[p] = table.constant * table.constant * static_cast<double>(n);
    return job.in_range;
}

}  // namespace

bool column_squares(const LinearTable& table, double* out, int n_threads) {
    if (!table.is_sparse())
        return with_numbers(table, [&]<class Number>(const Number*) {
            return square_columns(DenseRows<Number>(table), table, static_cast<double>(table.n_columns), out,
                                  n_threads);
        });
    return with_sparse_rows(
        table, [&](const auto& rows) { return square_columns(rows, table, rows.mean_count(), out, n_threads); });
}

}  // namespace mercer::MERCER_ISA
