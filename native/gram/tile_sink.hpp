// The destination of finished tiles, and the division of a request into tasks.
#pragma once

#include <type_traits>

#include "gram/dense_panels.hpp"
#include "gram/simd.hpp"
#include "gram/tiles.hpp"
#include "parallel/scratch.hpp"

namespace mercer::MERCER_ISA {

constexpr int64_t kFewVectors = 4;         // largest number of vectors whose sums are kept lane by lane
constexpr int64_t kPanelBytes = 4 << 20;   // bytes of columns that are packed at a time; they stay in the cache
constexpr int64_t kMaxGroups = 16;         // row groups (kTileRows rows each) that are packed at a time
constexpr int64_t kStoredGroups = 4;       // the same if values are stored: prefetchers can follow only a few rows
constexpr int64_t kPackedAlone = 1 << 13;  // elements below which one thread packs faster than several
constexpr int64_t kTasksPerThread = 4;     // several tasks, so that no thread waits long for the last one
constexpr int64_t kSymmetricTasks = 32;    // tasks of a symmetric product; each has its own sums over rows
constexpr int64_t kTasksOfPart = 8;        // tasks of a symmetric product that is computed in parts
// Columns of a symmetric product that are evaluated at a time. For one vector, the sums over rows of all 32 tasks then
// take 8 MiB.
constexpr int64_t kSymmetricColumns = 1 << 15;

// The destination of finished tiles. Their values are stored (rounded, if Stored has lower precision), or multiplied by
// vectors and summed in double precision.
template <class Stored>
struct Sink {
    Stored* stored;         // null if values are summed
    int64_t stored_stride;  // distance between the rows of `stored`
    double* sums;
    const double* vectors;  // shape (n_right, n_vectors); transposed if there are at most kFewVectors
    int64_t n_vectors;
    int64_t n_right;
    bool turned;  // whether the transposed matrix is stored

    bool is_few() const { return stored == nullptr && n_vectors <= kFewVectors; }
    bool adds_mirrored(const TileRequest& request) const { return request.symmetric && stored == nullptr; }
};

// to[column][row] = from[row][column], for at most kLanesOf<Real> rows and columns.
template <class Real, class Stored>
MERCER_INLINE void turn_square(const Real* from, int64_t from_stride, int n_rows, int n_columns, Stored* to,
                               int64_t to_stride) {
    constexpr int kLane = kLanesOf<Real>;
    if (!std::is_same_v<Real, Stored> || n_rows < kLane || n_columns < kLane) {
        for (int c = 0; c < n_columns; ++c)
            for (int r = 0; r < n_rows; ++r) to[c * to_stride + r] = static_cast<Stored>(from[r * from_stride + c]);
        return;
    }
    if constexpr (std::is_same_v<Real, Stored>) {
        VecOf<Real> rows[kLane];
#pragma GCC unroll 16
        for (int r = 0; r < kLane; ++r) rows[r] = load_vector(from + r * from_stride);
        turn<Real>(rows);
#pragma GCC unroll 16
        for (int r = 0; r < kLane; ++r) store(to + r * to_stride, rows[r]);
    }
}

inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Passes the finished tiles of one task to the sink. Sums over columns are kept lane by lane until the task ends. A
// symmetric matrix is evaluated only on and above the diagonal. If it is stored, the lower triangle is copied at the
// end. If it is summed, each element above the diagonal is also added to the sums of its mirror image, in `mirrored`,
// which belongs to the task.
template <class Real, class Stored>
class Outlet {
  public:
    Outlet(const Sink<Stored>& sink, int64_t first_row, int64_t n_rows, double* mirrored, int64_t first_column,
           int64_t n_columns)
        : sink_(sink),
          first_row_(first_row),
          first_column_(first_column),
          n_columns_(n_columns),
          mirrored_(mirrored),
          n_lanes_(sink.is_few() ? n_rows * sink.n_vectors : 0),
          memory_(sizeof(Vec) * static_cast<std::size_t>(n_lanes_)),
          lanes_(memory_.as<Vec>()) {
        for (int64_t i = 0; i < n_lanes_; ++i) lanes_[i] = Vec{};
    }

    void emit(const Real* tile, int n_rows, int n_columns, int stride, int64_t row, int64_t column) {
        if (sink_.turned) return store_turned(tile, n_rows, n_columns, stride, row, column);
        if (sink_.stored != nullptr) return store_tile(tile, n_rows, n_columns, stride, row, column);
        if (sink_.is_few() && n_columns == kTileColumns<Real>) {
            if (mirrored_ == nullptr) return add_whole_tile<false>(tile, n_rows, stride, row, column);
            if (column >= row + n_rows) return add_whole_tile<true>(tile, n_rows, stride, row, column);
        }
        for (int r = 0; r < n_rows; ++r) {
            const Real* values = tile + r * stride;
            if (sink_.is_few())
                add_row(values, n_columns, row + r, column);
            else
                add_many(values, n_columns, row + r, column);
        }
    }

    void finish() {
        for (int64_t i = 0; i < n_lanes_; ++i) sink_.sums[first_row_ * sink_.n_vectors + i] += sum(lanes_[i]);
    }

  private:
    void store_tile(const Real* tile, int n_rows, int n_columns, int stride, int64_t row, int64_t column) {
        Stored* out = sink_.stored + row * sink_.stored_stride + column;
        for (int r = 0; r < n_rows; ++r, tile += stride, out += sink_.stored_stride) {
            if constexpr (std::is_same_v<Real, Stored>)
                if (n_columns == kTileColumns<Real>) {
#pragma GCC unroll 8
                    for (int c = 0; c < kTileColumns<Real>; c += kLanesOf<Real>) store(out + c, load_vector(tile + c));
                    continue;
                }
            for (int c = 0; c < n_columns; ++c) out[c] = static_cast<Stored>(tile[c]);
        }
    }

    void store_turned(const Real* tile, int n_rows, int n_columns, int stride, int64_t row, int64_t column) {
        constexpr int kLane = kLanesOf<Real>;
        Stored* out = sink_.stored + column * sink_.stored_stride + row;
        for (int r = 0; r < n_rows; r += kLane)
            for (int c = 0; c < n_columns; c += kLane)
                turn_square(tile + r * stride + c, stride, static_cast<int>(min64(kLane, n_rows - r)),
                            static_cast<int>(min64(kLane, n_columns - c)), out + c * sink_.stored_stride + r,
                            sink_.stored_stride);
    }

    // Adds a tile of full width; with kMirrors, also its mirror image. Nearly all tiles of dense rows come here.
    template <bool kMirrors>
    void add_whole_tile(const Real* tile, int n_rows, int stride, int64_t row, int64_t column) {
        constexpr int kVectors = kTileColumns<Real> / kLanes;
        const int64_t n_vectors = sink_.n_vectors;
        for (int64_t t = 0; t < n_vectors; ++t) {
            const double* vector = sink_.vectors + t * sink_.n_right;
            Vec* lanes = lanes_ + (row - first_row_) * n_vectors + t;
            Vec weights[kVectors], images[kVectors];
#pragma GCC unroll 8
            for (int c = 0; c < kVectors; ++c) weights[c] = load(vector + column + c * kLanes), images[c] = Vec{};
            for (int r = 0; r < n_rows; ++r) {
                const Real* values = tile + r * stride;
                Vec total = lanes[r * n_vectors];
#pragma GCC unroll 8
                for (int c = 0; c < kVectors; ++c) {
                    const Vec some = load(values + c * kLanes);
                    total += some * weights[c];
                    if constexpr (kMirrors) images[c] += some * vector[row + r];
                }
                lanes[r * n_vectors] = total;
            }
            if constexpr (!kMirrors) continue;
            double* out = mirrored_ + t * n_columns_ + (column - first_column_);
#pragma GCC unroll 8
            for (int c = 0; c < kVectors; ++c) store(out + c * kLanes, load(out + c * kLanes) + images[c]);
        }
    }

    void add_row(const Real* values, int n_columns, int64_t row, int64_t column) {
        const int first = mirrored_ != nullptr && row > column ? static_cast<int>(min64(row - column, n_columns)) : 0;
        for (int64_t t = 0; t < sink_.n_vectors; ++t) {
            const double* weights = sink_.vectors + t * sink_.n_right;
            const int64_t at = row * sink_.n_vectors + t;
            Vec& lanes = lanes_[at - first_row_ * sink_.n_vectors];
            lanes += product(values, weights + column, first, n_columns, sink_.sums[at]);
            if (mirrored_ != nullptr)
                mirror(values, weights[row], row >= column && row < column + n_columns ? first + 1 : first, n_columns,
                       mirrored_ + t * n_columns_ + (column - first_column_));
        }
    }

    // Two independent sums hide the latency of additions. Elements that do not fill a vector are added to `rest`.
    // Columns beyond the last one are skipped instead of multiplied by 0, because their kernel values may be infinite.
    static Vec product(const Real* values, const double* weights, int first, int last, double& rest) {
        Vec even{}, odd{};
        int c = first;
        for (; c + 2 * kLanes <= last; c += 2 * kLanes) {
            even += load(values + c) * load(weights + c);
            odd += load(values + c + kLanes) * load(weights + c + kLanes);
        }
        for (; c + kLanes <= last; c += kLanes) even += load(values + c) * load(weights + c);
        for (; c < last; ++c) rest += static_cast<double>(values[c]) * weights[c];
        return even + odd;
    }

    static void mirror(const Real* values, double weight, int first, int last, double* out) {
        int c = first;
        for (; c + kLanes <= last; c += kLanes) store(out + c, load(out + c) + load(values + c) * weight);
        for (; c < last; ++c) out[c] += static_cast<double>(values[c]) * weight;
    }

    void add_many(const Real* values, int n_columns, int64_t row, int64_t column) {
        double* out = sink_.sums + row * sink_.n_vectors;
        for (int c = 0; c < n_columns; ++c) {
            const auto value = static_cast<double>(values[c]);
            const double* vector = sink_.vectors + (column + c) * sink_.n_vectors;
            for (int64_t t = 0; t < sink_.n_vectors; ++t) out[t] += value * vector[t];
        }
    }

    const Sink<Stored>& sink_;
    int64_t first_row_, first_column_, n_columns_;
    double* mirrored_;
    int64_t n_lanes_;
    Scratch memory_;
    Vec* lanes_;
};

// Divides the rows of a request into tasks. In a symmetric product each task has its own sums over its rows, so that
// the division depends only on the number of rows. All other sums are over columns, and their results do not depend on
// the division.
template <class Stored>
class Tasks {
  public:
    // Each task has a multiple of `unit` rows, at least `least`; except in symmetric products, about `most` at most.
    Tasks(const TileRequest& request, const Sink<Stored>& sink, int64_t columns_at_a_time, int64_t unit, int64_t least,
          int64_t most)
        : rows_per_task(rows_of_task(request, sink, unit, least, most)),
          first(divide_up(request.left.count, rows_per_task) * request.part / request.parts),
          count(divide_up(request.left.count, rows_per_task) * (request.part + 1) / request.parts - first),
          memory_(sizeof(double) * static_cast<std::size_t>(
                                       sink.adds_mirrored(request) ? count * sink.n_vectors * columns_at_a_time : 0)),
          adds_mirrored_(sink.adds_mirrored(request)) {}

    const int64_t rows_per_task, first, count;  // first and count: the tasks of the requested part

    int64_t first_row(int64_t task) const { return (first + task) * rows_per_task; }

    double* clear_mirrored(int64_t task, const Sink<Stored>& sink, int64_t n_columns) const {
        if (!adds_mirrored_) return nullptr;
        double* sums = memory_.as<double>() + task * sink.n_vectors * n_columns;
        for (int64_t c = 0; c < sink.n_vectors * n_columns; ++c) sums[c] = 0.0;
        return sums;
    }

    // Adds the sums of mirror images to the sink, in the order of the tasks.
    void add_mirrored(const Sink<Stored>& sink, int64_t first_column, int64_t n_columns) const {
        if (!adds_mirrored_) return;
        const double* sums = memory_.as<double>();
        for (int64_t task = 0; task < count; ++task)
            for (int64_t t = 0; t < sink.n_vectors; ++t, sums += n_columns)
                for (int64_t c = 0; c < n_columns; ++c) sink.sums[(first_column + c) * sink.n_vectors + t] += sums[c];
    }

  private:
    static int64_t rows_of_task(const TileRequest& request, const Sink<Stored>& sink, int64_t unit, int64_t least,
                                int64_t most) {
        const int64_t n = request.left.count;
        const int64_t wanted = sink.adds_mirrored(request)
                                   ? divide_up(n, request.parts > 1 ? kTasksOfPart * request.parts : kSymmetricTasks)
                                   : min64(most, divide_up(n, kTasksPerThread * max64(1, request.n_threads)));
        return divide_up(max64(least, wanted), unit) * unit;
    }

    Scratch memory_;
    bool adds_mirrored_;
};

}  // namespace mercer::MERCER_ISA
