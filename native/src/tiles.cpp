// Kernel tiles, compiled once per instruction set (see simd.hpp).
#include "mercer/tiles.hpp"

#include "mercer/dense_panels.hpp"
#include "mercer/interpreter.hpp"
#include "mercer/parallel.hpp"
#include "mercer/sparse_panels.hpp"

namespace mercer::MERCER_ISA {
namespace {

constexpr int64_t kFewVectors = 4;         // so many are summed lane by lane
constexpr int64_t kPanelBytes = 4 << 20;   // packed columns handled at a time: they stay in the cache
constexpr int64_t kLeftBytes = 192 << 10;  // packed rows handled at a time by one thread
constexpr int64_t kMaxGroups = 16;
constexpr int64_t kSparseRowsPerTask = 512;

// Where finished tiles go: stored as they are, or multiplied by vectors and summed in double.
template <class Real>
struct Sink {
    Real* stored;           // null to accumulate
    int64_t stored_stride;  // distance between its rows
    double* sums;
    const double* vectors;  // (n_right, n_vectors); where there are few, (n_vectors, n_right)
    int64_t n_vectors;
    int64_t n_right;

    bool is_few() const { return stored == nullptr && n_vectors <= kFewVectors; }
};

int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Finished tiles of one task, on their way to the sink. Sums over columns are kept lane by lane until the task ends.
template <class Real>
class Outlet {
  public:
    Outlet(const Sink<Real>& sink, bool symmetric, int64_t first_row, int64_t n_rows)
        : sink_(sink),
          symmetric_(symmetric),
          first_row_(first_row),
          n_lanes_(sink.is_few() ? n_rows * sink.n_vectors : 0),
          memory_(sizeof(Vec) * static_cast<std::size_t>(n_lanes_)),
          lanes_(memory_.as<Vec>()) {
        for (int64_t i = 0; i < n_lanes_; ++i) lanes_[i] = Vec{};
    }

    void emit(const Real* tile, int n_rows, int n_columns, int stride, int64_t row, int64_t column) {
        if (sink_.stored != nullptr) return store_tile(tile, n_rows, n_columns, stride, row, column);
        if (sink_.is_few()) return add_products(tile, n_rows, n_columns, stride, row, column);
        for (int r = 0; r < n_rows; ++r) {
            double* out = sink_.sums + (row + r) * sink_.n_vectors;
            for (int c = 0; c < n_columns; ++c) {
                const auto value = static_cast<double>(tile[r * stride + c]);
                const double* vector = sink_.vectors + (column + c) * sink_.n_vectors;
                for (int64_t t = 0; t < sink_.n_vectors; ++t) out[t] += value * vector[t];
            }
        }
    }

    void finish() {
        for (int64_t i = 0; i < n_lanes_; ++i) sink_.sums[first_row_ * sink_.n_vectors + i] += sum(lanes_[i]);
    }

  private:
    void store_tile(const Real* tile, int n_rows, int n_columns, int stride, int64_t row, int64_t column) {
        const int below = symmetric_ && row > column ? static_cast<int>(row - column) : 0;  // another task's copies
        for (int r = 0; r < n_rows; ++r) {
            Real* out = sink_.stored + (row + r) * sink_.stored_stride + column;
            for (int c = below; c < n_columns; ++c) out[c] = tile[r * stride + c];
        }
        for (int c = 0; symmetric_ && c < n_columns; ++c) {
            if (column + c < row + n_rows) continue;
            Real* out = sink_.stored + (column + c) * sink_.stored_stride + row;
            for (int r = 0; r < n_rows; ++r) out[r] = tile[r * stride + c];
        }
    }

    void add_products(const Real* tile, int n_rows, int n_columns, int stride, int64_t row, int64_t column) {
        for (int64_t t = 0; t < sink_.n_vectors; ++t) {
            const double* weights = sink_.vectors + t * sink_.n_right + column;
            for (int r = 0; r < n_rows; ++r) {
                const int64_t at = (row + r) * sink_.n_vectors + t;
                Vec& lanes = lanes_[at - first_row_ * sink_.n_vectors];
                Vec total = lanes;
                int c = 0;
                for (; c + kLanes <= n_columns; c += kLanes) total += load(tile + r * stride + c) * load(weights + c);
                lanes = total;
                // Columns beyond n_columns are left out, not weighted with 0: their kernel values may be infinite.
                for (; c < n_columns; ++c) sink_.sums[at] += static_cast<double>(tile[r * stride + c]) * weights[c];
            }
        }
    }

    const Sink<Real>& sink_;
    bool symmetric_;
    int64_t first_row_, n_lanes_;
    Scratch memory_;
    Vec* lanes_;
};

template <class Real>
struct Job {
    const TileRequest& request;
    const Sink<Real>& sink;
    Real centre_norm;
    int64_t first_column, n_columns;  // of the columns now packed
    Real *panels, *norms, *offsets;
    int64_t groups_per_task;

    TileSides<Real> sides(const Real* left_norms, const Real* left_offsets, int64_t panel, int width) const {
        return {left_norms, norms + panel * width, left_offsets, offsets + panel * width, centre_norm};
    }
};

template <class Real>
void pack_panel_task(void* context, int64_t panel) {
    constexpr int kColumns = kTileColumns<Real>;
    const auto& job = *static_cast<const Job<Real>*>(context);
    const int64_t p = job.request.right.n_features, first = panel * kColumns;
    const int count = static_cast<int>(min64(kColumns, job.n_columns - first));
    pack_dense<Real, kColumns>(job.request.right, job.first_column + first, count, job.request.centre,
                               static_cast<double>(job.centre_norm), job.request.program,
                               job.panels + panel * p * kColumns, job.norms + first, job.offsets + first);
}

template <class Real>
void dense_rows_task(void* context, int64_t task) {
    constexpr int kColumns = kTileColumns<Real>;
    const auto& job = *static_cast<const Job<Real>*>(context);
    const RowsView& left = job.request.left;
    const int64_t p = left.n_features;
    const int64_t first_row = task * job.groups_per_task * kTileRows;
    const int64_t n_groups = divide_up(min64(job.groups_per_task * kTileRows, left.count - first_row), kTileRows);
    constexpr int kTileSize = kTileRows * kColumns;
    Scratch scratch(sizeof(Real) *
                    static_cast<std::size_t>(n_groups * kTileRows * (p + 2) + (kMaxStack + 1) * kTileSize));
    Real* packed = scratch.as<Real>();
    Real* norms = packed + n_groups * kTileRows * p;
    Real* offsets = norms + n_groups * kTileRows;
    Real* tile = offsets + n_groups * kTileRows;
    for (int64_t g = 0; g < n_groups; ++g) {
        const int64_t row = first_row + g * kTileRows;
        pack_dense<Real, kTileRows>(left, row, static_cast<int>(min64(kTileRows, left.count - row)), job.request.centre,
                                    static_cast<double>(job.centre_norm), job.request.program,
                                    packed + g * kTileRows * p, norms + g * kTileRows, offsets + g * kTileRows);
    }
    Outlet<Real> outlet(job.sink, job.request.symmetric, first_row,
                        min64(n_groups * kTileRows, left.count - first_row));
    for (int64_t panel = 0; panel * kColumns < job.n_columns; ++panel) {
        const int64_t column = panel * kColumns;
        for (int64_t g = 0; g < n_groups; ++g) {
            const int64_t row = first_row + g * kTileRows;
            if (job.request.symmetric && job.first_column + column + kColumns <= row) continue;
            (job.request.program.direct ? distance_tile<Real> : dense_tile<Real>)(packed + g * kTileRows * p,
                                                                                  job.panels + column * p, p, tile);
            run_program(job.request.program, job.sides(norms + g * kTileRows, offsets + g * kTileRows, panel, kColumns),
                        kTileRows, kColumns, tile, tile + kTileSize);
            outlet.emit(tile, static_cast<int>(min64(kTileRows, left.count - row)),
                        static_cast<int>(min64(kColumns, job.n_columns - column)), kColumns, row,
                        job.first_column + column);
        }
    }
    outlet.finish();
}

template <class Real>
void run_dense(const TileRequest& request, const Sink<Real>& sink) {
    constexpr int kColumns = kTileColumns<Real>;
    const int64_t p = request.right.n_features, m = request.right.count;
    double centre_norm = 0.0;
    if (request.centre)
        for (int64_t k = 0; k < p; ++k) centre_norm += request.centre[k] * request.centre[k];
    const int64_t row_bytes = static_cast<int64_t>(sizeof(Real)) * max64(p, 1);
    const int64_t chunk = min64(divide_up(m, kColumns), max64(1, kPanelBytes / (row_bytes * kColumns))) * kColumns;
    const int64_t groups = min64(kMaxGroups, max64(1, kLeftBytes / (row_bytes * kTileRows)));
    Scratch panels(sizeof(Real) * static_cast<std::size_t>(chunk * (p + 2)));
    for (int64_t first = 0; first < m; first += chunk) {
        Job<Real> job{request,
                      sink,
                      static_cast<Real>(centre_norm),
                      first,
                      min64(chunk, m - first),
                      panels.as<Real>(),
                      panels.as<Real>() + chunk * p,
                      panels.as<Real>() + chunk * (p + 1),
                      groups};
        parallel_for(divide_up(job.n_columns, kColumns), request.n_threads, pack_panel_task<Real>, &job);
        parallel_for(divide_up(request.left.count, groups * kTileRows), request.n_threads, dense_rows_task<Real>, &job);
    }
}

template <class Real, class Left, class Right>
void sparse_rows(const Job<Real>& job, const Left& left_rows, const Right& right_rows, int64_t first_row,
                 int64_t last_row) {
    const RowsView &left = job.request.left, &right = job.request.right;
    const int64_t p = right.n_features;
    Scratch slot_memory(sizeof(int32_t) * static_cast<std::size_t>(p + 1));
    int32_t* slots = slot_memory.as<int32_t>();
    for (int64_t k = 0; k < p; ++k) slots[k] = -1;
    constexpr int kColumns = kSparseColumns<Real>, kTileSize = kTileRows * kColumns;
    Scratch tile_memory(sizeof(Real) * (kMaxStack + 1) * kTileSize);
    Real* tile = tile_memory.as<Real>();
    Real right_norms[kColumns], zeros[kColumns] = {}, left_norms[kTileRows];
    Outlet<Real> outlet(job.sink, job.request.symmetric, first_row, last_row - first_row);
    for (int64_t column = 0; column < right.count; column += kColumns) {
        const int count = static_cast<int>(min64(kColumns, right.count - column));
        const int64_t room = min64(p, count_entries(right_rows, right, column, count));
        Scratch dense(sizeof(Real) * static_cast<std::size_t>(room * kColumns));
        scatter_columns(right_rows, right, column, count, slots, dense.as<Real>(), right_norms);
        for (int64_t row = first_row; row < last_row; row += kTileRows) {
            if (job.request.symmetric && column + kColumns <= row) continue;
            const int n_rows = static_cast<int>(min64(kTileRows, last_row - row));
            for (int r = 0; r < n_rows; ++r) {
                const int64_t at = left.rows ? left.rows[row + r] : row + r;
                left_norms[r] = sparse_norm<Real>(left_rows, at);
                sparse_products(left_rows, at, slots, dense.as<Real>(), tile + r * kColumns);
            }
            run_program<Real>(job.request.program, {left_norms, right_norms, zeros, zeros, 0}, n_rows, kColumns, tile,
                              tile + kTileSize);
            outlet.emit(tile, n_rows, count, kColumns, row, column);
        }
        clear_slots(right_rows, right, column, count, slots);
    }
    outlet.finish();
}

template <class Real>
void sparse_rows_task(void* context, int64_t task) {
    const auto& job = *static_cast<const Job<Real>*>(context);
    const int64_t first = task * kSparseRowsPerTask;
    const int64_t last = min64(first + kSparseRowsPerTask, job.request.left.count);
    with_csr(job.request.left.csr, [&](const auto& left) {
        with_csr(job.request.right.csr, [&](const auto& right) { sparse_rows(job, left, right, first, last); });
    });
}

template <class Real>
void run(const TileRequest& request, const Sink<Real>& sink) {
    if (request.left.count == 0 || request.right.count == 0) return;
    if (!request.left.sparse) return run_dense(request, sink);
    Job<Real> job{request, sink, 0, 0, request.right.count, nullptr, nullptr, nullptr, 0};
    parallel_for(divide_up(request.left.count, kSparseRowsPerTask), request.n_threads, sparse_rows_task<Real>, &job);
}

template <class Real>
void combine(const TileRequest& request, const double* vectors, int64_t n_vectors, double* out) {
    const int64_t n_right = request.right.count;
    const bool turn = n_vectors > 1 && n_vectors <= kFewVectors;
    Scratch memory(turn ? sizeof(double) * static_cast<std::size_t>(n_right * n_vectors) : 0);
    double* turned = memory.as<double>();
    for (int64_t j = 0; turn && j < n_right; ++j)
        for (int64_t t = 0; t < n_vectors; ++t) turned[t * n_right + j] = vectors[j * n_vectors + t];
    run(request, Sink<Real>{nullptr, 0, out, turn ? turned : vectors, n_vectors, n_right});
}

}  // namespace

void block(const TileRequest& request, double* out, int64_t out_stride) {
    run(request, Sink<double>{out, out_stride, nullptr, nullptr, 0, 0});
}

void block_single(const TileRequest& request, float* out, int64_t out_stride) {
    run(request, Sink<float>{out, out_stride, nullptr, nullptr, 0, 0});
}

void matvec(const TileRequest& request, const double* vectors, int64_t n_vectors, double* out) {
    combine<double>(request, vectors, n_vectors, out);
}

void matvec_single(const TileRequest& request, const double* vectors, int64_t n_vectors, double* out) {
    combine<float>(request, vectors, n_vectors, out);
}

}  // namespace mercer::MERCER_ISA
