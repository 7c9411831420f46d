// Products of rows with vectors, compiled once per instruction set (see simd.hpp). The value of a row depends only on
// the row and the vectors, so that rows in several blocks have the same values as in one.
#include "parallel/parallel.hpp"
#include "rows/chained_sum.hpp"
#include "rows/dense_products.hpp"
#include "rows/sparse_rows.hpp"
#include "rows/sweeps.hpp"
#include "rows/threads.hpp"

namespace mercer::MERCER_ISA {
namespace {

// Rows and vectors at a time if there are several vectors: their products are in registers.
#if defined(__AVX512F__)
constexpr int kRowsOfMany = 8, kVectorsOfMany = 3;
#elif defined(__AVX2__)
constexpr int kRowsOfMany = 4, kVectorsOfMany = 3;
#else
constexpr int kRowsOfMany = 4, kVectorsOfMany = 2;
#endif

constexpr int64_t kNumbersPerTask = int64_t{1} << 18;

int64_t rows_per_task(int64_t n_columns) {
    const int64_t count = kNumbersPerTask / n_columns / kRows * kRows;
    return count < kRows ? kRows : count > 4096 ? 4096 : count;
}

struct WithItself {
    MERCER_INLINE Vec factor(Vec x, int, int64_t) const { return x; }
};

// Calls keep(first row, number of rows, products) for the rows of a task.
template <int kHeight, int kVectors, class Number, class Factors, class Keep>
MERCER_INLINE void multiply_task(const DenseRows<Number>& rows, int64_t task, const Factors& factors, Keep put) {
    const int64_t height = rows_per_task(rows.n_columns), begin = task * height,
                  end = begin + height < rows.n_rows ? begin + height : rows.n_rows;
    for (int64_t i = begin; i < end; i += kHeight) {
        const Number* some[kHeight];
        rows.template point<kHeight>(i, some);
        alignas(kVectorBytes) double products[kHeight * kVectors];
        multiply_rows<kHeight, kVectors>(rows, some, factors, products);
        put(i, end - i < kHeight ? end - i : kHeight, products);
    }
}

template <class Number>
struct DenseJob {
    const DenseRows<Number>& rows;
    const RowProducts& request;
    const double* vectors;  // n_vectors x n_padded
};

template <int kHeight, int kVectors, class Number>
void multiply_by_vectors(const DenseJob<Number>& job, int64_t task, int64_t k) {
    const RowProducts& request = job.request;
    const int64_t n_vectors = request.n_vectors, p = request.table.n_columns;
    const WithVectors factors{job.vectors + k * job.rows.n_padded, job.rows.n_padded};
    double offsets[kVectors] = {};
    if (request.table.constant != 0.0)
        for (int c = 0; c < kVectors; ++c) offsets[c] = request.table.constant * request.vectors[p * n_vectors + k + c];
    multiply_task<kHeight, kVectors>(
        job.rows, task, factors, [&](int64_t i, int64_t count, const double* products) MERCER_LAMBDA_INLINE {
            for (int64_t r = 0; r < count; ++r)
                for (int c = 0; c < kVectors; ++c)
                    request.out[(i + r) * n_vectors + k + c] = products[r * kVectors + c] + offsets[c];
        });
}

template <class Number>
void dense_task(void* context, int64_t task) {
    const auto& job = *static_cast<const DenseJob<Number>*>(context);
    int64_t k = 0;
    for (; k + kVectorsOfMany <= job.request.n_vectors; k += kVectorsOfMany)
        multiply_by_vectors<kRowsOfMany, kVectorsOfMany>(job, task, k);
    for (; k < job.request.n_vectors; ++k) multiply_by_vectors<kRows, 1>(job, task, k);
}

template <class Number>
bool multiply_dense(const RowProducts& request, int n_threads) {
    const DenseRows<Number> rows(request.table);
    const int64_t n_padded = rows.n_padded, K = request.n_vectors;
    Scratch memory(sizeof(double) * static_cast<std::size_t>(K * n_padded + 1));
    auto* vectors = memory.as<double>();
    for (int64_t k = 0; k < K; ++k)
        for (int64_t j = 0; j < n_padded; ++j)
            vectors[k * n_padded + j] = j < rows.n_columns ? request.vectors[j * K + k] : 0.0;
    DenseJob<Number> job{rows, request, vectors};
    const int64_t height = rows_per_task(rows.n_columns);
    parallel_for((rows.n_rows + height - 1) / height, threads_for(rows.n_rows * rows.n_columns * K, n_threads),
                 dense_task<Number>, &job);
    return true;
}

template <class Number>
struct SquaresJob {
    const DenseRows<Number>& rows;
    double offset;
    double* out;
};

template <class Number>
void squares_task(void* context, int64_t task) {
    const auto& job = *static_cast<const SquaresJob<Number>*>(context);
    multiply_task<kRows, 1>(job.rows, task, WithItself{},
                            [&](int64_t i, int64_t count, const double* products) MERCER_LAMBDA_INLINE {
                                for (int64_t r = 0; r < count; ++r) job.out[i + r] = products[r] + job.offset;
                            });
}

template <class Number>
bool square_dense(const LinearTable& table, double* out, int n_threads) {
    const DenseRows<Number> rows(table);
    SquaresJob<Number> job{rows, table.constant * table.constant, out};
    const int64_t height = rows_per_task(rows.n_columns);
    parallel_for((rows.n_rows + height - 1) / height, threads_for(rows.n_rows * rows.n_columns, n_threads),
                 squares_task<Number>, &job);
    return true;
}

// A task of rows of a CSR table. visit(i, row) is called for each row; a row out of range clears the flag.
template <class Rows, class Visit>
struct SparseJob {
    const Rows& rows;
    const Visit& visit;
    int64_t height;
    bool in_range;
};

template <class Rows, class Visit>
void sparse_task(void* context, int64_t task) {
    auto& job = *static_cast<SparseJob<Rows, Visit>*>(context);
    const int64_t begin = task * job.height,
                  end = begin + job.height < job.rows.n_rows ? begin + job.height : job.rows.n_rows;
    bool in_range = true;
    for (int64_t i = begin; i < end; ++i) {
        const auto row = job.rows[i];
        in_range = in_range && row.in_range;
        job.visit(i, row);
    }
    if (!in_range) __atomic_store_n(&job.in_range, false, __ATOMIC_RELAXED);
}

template <class Rows, class Visit>
bool visit_sparse(const Rows& rows, int64_t n_vectors, int n_threads, const Visit& visit) {
    const auto mean = static_cast<int64_t>(rows.mean_count()) + 4;
    SparseJob<Rows, Visit> job{rows, visit, rows_per_task(mean), true};
    parallel_for((rows.n_rows + job.height - 1) / job.height,
                 threads_for(2 * rows.n_rows * mean * n_vectors, n_threads), sparse_task<Rows, Visit>, &job);
    return job.in_range;
}

}  // namespace

bool row_products(const RowProducts& request, int n_threads) {
    const LinearTable& table = request.table;
    if (!table.is_sparse())
        return with_numbers(table,
                            [&]<class Number>(const Number*) { return multiply_dense<Number>(request, n_threads); });
    const int64_t K = request.n_vectors, p = table.n_columns;
    const double* vectors = request.vectors;
    const double* last = table.constant != 0.0 ? vectors + p * K : nullptr;
    return with_sparse_rows(table, [&](const auto& rows) {
        if (K == 1)
            return visit_sparse(rows, 1, n_threads, [&](int64_t i, const auto& row) MERCER_LAMBDA_INLINE {
                const double sum = chained_sum<4>(row.count, [&](int64_t e) MERCER_LAMBDA_INLINE {
                    return static_cast<double>(row.values[e]) * vectors[row.columns[e]];
                });
                request.out[i] = last ? sum + table.constant * last[0] : sum;
            });
        return visit_sparse(rows, K, n_threads, [&](int64_t i, const auto& row) MERCER_LAMBDA_INLINE {
            double* __restrict out = request.out + i * K;
            for (int64_t k = 0; k < K; ++k) out[k] = 0.0;
            for (int64_t e = 0; e < row.count; ++e) {
                const auto x = static_cast<double>(row.values[e]);
                const double* __restrict v = vectors + static_cast<int64_t>(row.columns[e]) * K;
                for (int64_t k = 0; k < K; ++k) out[k] += x * v[k];
            }
            if (last)
                for (int64_t k = 0; k < K; ++k) out[k] += table.constant * last[k];
        });
    });
}

bool row_squares(const LinearTable& table, double* out, int n_threads) {
    if (!table.is_sparse())
        return with_numbers(table,
                            [&]<class Number>(const Number*) { return square_dense<Number>(table, out, n_threads); });
    return with_sparse_rows(table, [&](const auto& rows) {
        return visit_sparse(rows, 1, n_threads, [&](int64_t i, const auto& row) MERCER_LAMBDA_INLINE {
            const double sum = chained_sum<4>(row.count, [&](int64_t e) MERCER_LAMBDA_INLINE {
                const auto x = static_cast<double>(row.values[e]);
                return x * x;
            });
            out[i] = sum + table.constant * table.constant;
        });
    });
}

}  // namespace mercer::MERCER_ISA
