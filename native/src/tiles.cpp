// Kernel tiles, compiled once per instruction set (see simd.hpp).
#include "mercer/tiles.hpp"

#include "mercer/dense_panels.hpp"
#include "mercer/interpreter.hpp"
#include "mercer/parallel.hpp"
#include "mercer/sparse_panels.hpp"

namespace mercer::MERCER_ISA {
namespace {

// Where finished tiles go: stored, stored in single precision, or multiplied by vectors and summed.
struct Sink {
    double* out;
    float* single;          // store here instead of in out; null otherwise
    int64_t out_stride;     // store: distance between rows of out
    const double* vectors;  // accumulate: (n_right, n_vectors), null to store
    int64_t n_vectors;
};

constexpr int64_t kPanelBytes = 4 << 20;   // packed columns handled at a time: they stay in the cache
constexpr int64_t kLeftBytes = 192 << 10;  // packed rows handled at a time by one thread
constexpr int64_t kMaxGroups = 16;
constexpr int64_t kSparseRowsPerTask = 512;

int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

void emit(const Sink& sink, const double* tile, int n_rows, int n_columns, int stride, int64_t row, int64_t column) {
    if (sink.single != nullptr) {
        for (int r = 0; r < n_rows; ++r) {
            float* out = sink.single + (row + r) * sink.out_stride + column;
            for (int c = 0; c < n_columns; ++c) out[c] = static_cast<float>(tile[r * stride + c]);
        }
        return;
    }
    if (sink.vectors == nullptr) {
        for (int r = 0; r < n_rows; ++r) {
            double* out = sink.out + (row + r) * sink.out_stride + column;
            for (int c = 0; c < n_columns; ++c) out[c] = tile[r * stride + c];
        }
        return;
    }
    if (sink.n_vectors == 1) {
        const double* weights = sink.vectors + column;
        for (int r = 0; r < n_rows; ++r) {
            // Columns beyond n_columns are left out, not weighted with 0: their kernel values may be infinite.
            Vec total{};
            int c = 0;
            for (; c + kLanes <= n_columns; c += kLanes) total += load(tile + r * stride + c) * load(weights + c);
            double rest = sum(total);
            for (; c < n_columns; ++c) rest += tile[r * stride + c] * weights[c];
            sink.out[row + r] += rest;
        }
        return;
    }
    for (int r = 0; r < n_rows; ++r) {
        double* out = sink.out + (row + r) * sink.n_vectors;
        for (int c = 0; c < n_columns; ++c) {
            const double value = tile[r * stride + c];
            const double* vector = sink.vectors + (column + c) * sink.n_vectors;
            for (int64_t t = 0; t < sink.n_vectors; ++t) out[t] += value * vector[t];
        }
    }
}

struct Job {
    const TileRequest& request;
    const Sink& sink;
    double centre_norm;
    int64_t first_column, n_columns;  // of the columns now packed
    double *panels, *norms, *offsets;
    int64_t groups_per_task;

    TileSides sides(const double* left_norms, const double* left_offsets, int64_t panel, int width) const {
        return {left_norms, norms + panel * width, left_offsets, offsets + panel * width, centre_norm};
    }
};

void pack_panel_task(void* context, int64_t panel) {
    const Job& job = *static_cast<const Job*>(context);
    const int64_t p = job.request.right.n_features, first = panel * kTileColumns;
    const int count = static_cast<int>(min64(kTileColumns, job.n_columns - first));
    pack_dense(job.request.right, job.first_column + first, count, kTileColumns, job.request.centre,
               job.panels + panel * p * kTileColumns, job.norms + first, job.offsets + first);
}

void dense_rows_task(void* context, int64_t task) {
    const Job& job = *static_cast<const Job*>(context);
    const RowsView& left = job.request.left;
    const int64_t p = left.n_features;
    const int64_t first_row = task * job.groups_per_task * kTileRows;
    const int64_t n_groups = divide_up(min64(job.groups_per_task * kTileRows, left.count - first_row), kTileRows);
    constexpr int kTileSize = kTileRows * kTileColumns;
    Scratch scratch(sizeof(double) *
                    static_cast<std::size_t>(n_groups * kTileRows * (p + 2) + (kMaxStack + 1) * kTileSize));
    double* packed = scratch.doubles();
    double* norms = packed + n_groups * kTileRows * p;
    double* offsets = norms + n_groups * kTileRows;
    double* tile = offsets + n_groups * kTileRows;
    for (int64_t g = 0; g < n_groups; ++g) {
        const int64_t row = first_row + g * kTileRows;
        pack_dense(left, row, static_cast<int>(min64(kTileRows, left.count - row)), kTileRows, job.request.centre,
                   packed + g * kTileRows * p, norms + g * kTileRows, offsets + g * kTileRows);
    }
    for (int64_t panel = 0; panel * kTileColumns < job.n_columns; ++panel) {
        const int64_t column = panel * kTileColumns;
        for (int64_t g = 0; g < n_groups; ++g) {
            const int64_t row = first_row + g * kTileRows;
            dense_tile(packed + g * kTileRows * p, job.panels + column * p, p, tile);
            run_program(job.request.program,
                        job.sides(norms + g * kTileRows, offsets + g * kTileRows, panel, kTileColumns), kTileRows,
                        kTileColumns, tile, tile + kTileSize);
            emit(job.sink, tile, static_cast<int>(min64(kTileRows, left.count - row)),
                 static_cast<int>(min64(kTileColumns, job.n_columns - column)), kTileColumns, row,
                 job.first_column + column);
        }
    }
}

void run_dense(const TileRequest& request, const Sink& sink) {
    const int64_t p = request.right.n_features, m = request.right.count;
    double centre_norm = 0.0;
    if (request.centre)
        for (int64_t k = 0; k < p; ++k) centre_norm += request.centre[k] * request.centre[k];
    const int64_t row_bytes = static_cast<int64_t>(sizeof(double)) * max64(p, 1);
    const int64_t chunk =
        min64(divide_up(m, kTileColumns), max64(1, kPanelBytes / (row_bytes * kTileColumns))) * kTileColumns;
    const int64_t groups = min64(kMaxGroups, max64(1, kLeftBytes / (row_bytes * kTileRows)));
    Scratch panels(sizeof(double) * static_cast<std::size_t>(chunk * (p + 2)));
    for (int64_t first = 0; first < m; first += chunk) {
        Job job{request,
                sink,
                centre_norm,
                first,
                min64(chunk, m - first),
                panels.doubles(),
                panels.doubles() + chunk * p,
                panels.doubles() + chunk * (p + 1),
                groups};
        parallel_for(divide_up(job.n_columns, kTileColumns), request.n_threads, pack_panel_task, &job);
        parallel_for(divide_up(request.left.count, groups * kTileRows), request.n_threads, dense_rows_task, &job);
    }
}

template <class Left, class Right>
void sparse_rows(const Job& job, const Left& left_rows, const Right& right_rows, int64_t first_row, int64_t last_row) {
    const RowsView &left = job.request.left, &right = job.request.right;
    const int64_t p = right.n_features;
    Scratch slot_memory(sizeof(int32_t) * static_cast<std::size_t>(p + 1));
    int32_t* slots = slot_memory.ints();
    for (int64_t k = 0; k < p; ++k) slots[k] = -1;
    constexpr int kTileSize = kTileRows * kSparseColumns;
    Scratch tile_memory(sizeof(double) * (kMaxStack + 1) * kTileSize);
    double* tile = tile_memory.doubles();
    double right_norms[kSparseColumns], zeros[kSparseColumns] = {}, left_norms[kTileRows];
    for (int64_t column = 0; column < right.count; column += kSparseColumns) {
        const int count = static_cast<int>(min64(kSparseColumns, right.count - column));
        const int64_t room = min64(p, count_entries(right_rows, right, column, count));
        Scratch dense(sizeof(double) * static_cast<std::size_t>(room * kSparseColumns));
        scatter_columns(right_rows, right, column, count, slots, dense.doubles(), right_norms);
        for (int64_t row = first_row; row < last_row; row += kTileRows) {
            const int n_rows = static_cast<int>(min64(kTileRows, last_row - row));
            for (int r = 0; r < n_rows; ++r) {
                const int64_t at = left.rows ? left.rows[row + r] : row + r;
                left_norms[r] = sparse_norm(left_rows, at);
                sparse_products(left_rows, at, slots, dense.doubles(), tile + r * kSparseColumns);
            }
            run_program(job.request.program, {left_norms, right_norms, zeros, zeros, 0.0}, n_rows, kSparseColumns, tile,
                        tile + kTileSize);
            emit(job.sink, tile, n_rows, count, kSparseColumns, row, column);
        }
        clear_slots(right_rows, right, column, count, slots);
    }
}

void sparse_rows_task(void* context, int64_t task) {
    const Job& job = *static_cast<const Job*>(context);
    const int64_t first = task * kSparseRowsPerTask;
    const int64_t last = min64(first + kSparseRowsPerTask, job.request.left.count);
    with_csr(job.request.left.csr, [&](const auto& left) {
        with_csr(job.request.right.csr, [&](const auto& right) { sparse_rows(job, left, right, first, last); });
    });
}

void run(const TileRequest& request, const Sink& sink) {
    if (request.left.count == 0 || request.right.count == 0) return;
    if (!request.left.sparse) return run_dense(request, sink);
    Job job{request, sink, 0.0, 0, request.right.count, nullptr, nullptr, nullptr, 0};
    parallel_for(divide_up(request.left.count, kSparseRowsPerTask), request.n_threads, sparse_rows_task, &job);
}

}  // namespace

void block(const TileRequest& request, double* out, int64_t out_stride) {
    run(request, Sink{out, nullptr, out_stride, nullptr, 0});
}

void block_single(const TileRequest& request, float* out, int64_t out_stride) {
    run(request, Sink{nullptr, out, out_stride, nullptr, 0});
}

void matvec(const TileRequest& request, const double* vectors, int64_t n_vectors, double* out) {
    run(request, Sink{out, nullptr, 0, vectors, n_vectors});
}

}  // namespace mercer::MERCER_ISA
