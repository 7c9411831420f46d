// Kernel tiles, compiled once per instruction set (see simd.hpp).
#include "mercer/tiles.hpp"

#include <type_traits>

#include "mercer/dense_panels.hpp"
#include "mercer/interpreter.hpp"
#include "mercer/parallel.hpp"
#include "mercer/sparse_panels.hpp"

namespace mercer::MERCER_ISA {
namespace {

constexpr int64_t kFewVectors = 4;         // so many are summed lane by lane
constexpr int64_t kPanelBytes = 4 << 20;   // packed columns handled at a time: they stay in the cache
constexpr int64_t kLeftBytes = 192 << 10;  // packed rows handled at a time by one thread
constexpr int64_t kMaxGroups = 16;         // of as many rows as a tile has
constexpr int64_t kStoredGroups = 4;       // where values are stored: processors foresee so many rows being written
constexpr int64_t kNearBytes = 4 << 20;    // of a matrix that stays near
constexpr int64_t kMirroredTerms = 64;     // beyond that, copied rather than evaluated from so long rows on
constexpr int64_t kEntryTerms = 3;         // that an entry of a sparse row counts for
constexpr int64_t kMirroredAlone = 1024;   // rows that are mirrored before another thread has started
constexpr int64_t kTurnedFeatures = 192;   // of dense rows, from which on few of them are better columns
constexpr int64_t kPackedAlone = 1 << 15;  // elements of columns that are packed before another thread has started
constexpr int64_t kSparseRows = 128;       // of a task, at least: lists are set up for each task
constexpr int64_t kMostSparseRows = 512;   // and at most: packed they stay in the cache
constexpr int64_t kTasksPerThread = 4;     // so that no thread waits long for the last one
constexpr int64_t kSymmetricTasks = 32;    // each has its own sums over rows
constexpr int64_t kTasksOfPart = 8;        // of such a product that comes in parts
constexpr int64_t kSymmetricColumns = 1 << 15;  // at a time: 8 MiB of such sums

// Where finished tiles of some precision go: stored, rounded where it is in less, or multiplied by vectors and summed
// in double.
template <class Stored>
struct Sink {
    Stored* stored;         // null to accumulate
    int64_t stored_stride;  // distance between its rows
    double* sums;
    const double* vectors;  // (n_right, n_vectors); where there are few, (n_vectors, n_right)
    int64_t n_vectors;
    int64_t n_right;
    bool turned;  // rows are stored as columns

    bool is_few() const { return stored == nullptr && n_vectors <= kFewVectors; }
    bool adds_mirrored(const TileRequest& request) const { return request.symmetric && stored == nullptr; }
};

// to[column][row] = from[row][column], for as many rows and columns as a vector has lanes, or fewer.
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

int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Finished tiles of one task, on their way to the sink. Sums over columns are kept lane by lane until the task ends.
// Of a symmetric matrix, tiles on and above the diagonal come: what is below is left out. Stored, it is copied in the
// end; summed, each element above also counts for its mirror image, in `mirrored`, which is the task's own.
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

    // Nearly all tiles of dense rows; each of them above the diagonal also counts for its mirror image.
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

    // Two chains, for a sum waits for its last addition. What does not fill a vector is added to `rest`: columns beyond
    // the last one are left out, not weighted with 0, for their kernel values may be infinite.
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

// The rows of a request in tasks. For sums of a symmetric matrix, each has sums of its own over its rows, and tasks
// depend on the number of rows alone; all other sums are over columns and depend on no task.
template <class Stored>
class Tasks {
  public:
    // Of a multiple of `unit` rows each, and of `most` at most where nothing else is said.
    Tasks(const TileRequest& request, const Sink<Stored>& sink, int64_t columns_at_a_time, int64_t unit, int64_t least,
          int64_t most)
        : rows_per_task(rows_of_task(request, sink, unit, least, most)),
          first(divide_up(request.left.count, rows_per_task) * request.part / request.parts),
          count(divide_up(request.left.count, rows_per_task) * (request.part + 1) / request.parts - first),
          memory_(sizeof(double) * static_cast<std::size_t>(
                                       sink.adds_mirrored(request) ? count * sink.n_vectors * columns_at_a_time : 0)),
          adds_mirrored_(sink.adds_mirrored(request)) {}

    const int64_t rows_per_task, first, count;  // the first of those asked for

    int64_t first_row(int64_t task) const { return (first + task) * rows_per_task; }

    double* clear_mirrored(int64_t task, const Sink<Stored>& sink, int64_t n_columns) const {
        if (!adds_mirrored_) return nullptr;
        double* sums = memory_.as<double>() + task * sink.n_vectors * n_columns;
        for (int64_t c = 0; c < sink.n_vectors * n_columns; ++c) sums[c] = 0.0;
        return sums;
    }

    // In the order of the tasks.
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

template <class Real, class Stored>
struct DenseJob {
    const TileRequest& request;
    const Sink<Stored>& sink;
    const Tasks<Stored>& tasks;
    const double* centre_norms;       // of each pass
    int64_t first_column, n_columns;  // of the columns now packed
    Real *panels, *norms, *offsets;
    int64_t stride;  // of norms and offsets, from one pass to the next
    int64_t groups;  // of rows packed at a time
};

template <class Real, class Stored>
void pack_panel_task(void* context, int64_t panel) {
    constexpr int kColumns = kTileColumns<Real>;
    const auto& job = *static_cast<const DenseJob<Real, Stored>*>(context);
    const int64_t p = job.request.right.n_features, first = panel * kColumns;
    const int count = static_cast<int>(min64(kColumns, job.n_columns - first));
    pack_dense<Real, kColumns>(job.request.right, job.first_column + first, count, job.request.centre, job.centre_norms,
                               job.request.program, job.panels + panel * p * kColumns, job.norms + first,
                               job.offsets + first, job.stride);
}

template <class Real, class Stored>
void dense_rows(const DenseJob<Real, Stored>& job, int64_t first_row, int64_t last_row, Outlet<Real, Stored>& outlet) {
    constexpr int kColumns = kTileColumns<Real>, kTileSize = kTileRows * kColumns;
    const RowsView& left = job.request.left;
    const Program& program = job.request.program;
    const int64_t p = left.n_features, n_groups = divide_up(last_row - first_row, kTileRows);
    const int64_t n_rows = n_groups * kTileRows, n_passes = program.n_passes;
    const bool centred = job.request.centre != nullptr;
    Scratch scratch(sizeof(Real) *
                    static_cast<std::size_t>(n_rows * (p + 2 * n_passes) + (kMaxStack + n_passes) * kTileSize));
    Real* packed = scratch.as<Real>();
    Real* norms = packed + n_rows * p;
    Real* offsets = norms + n_rows * n_passes;
    Real* tiles = offsets + n_rows * n_passes;
    for (int64_t g = 0; g < n_groups; ++g) {
        const int64_t row = first_row + g * kTileRows;
        pack_dense<Real, kTileRows>(left, row, static_cast<int>(min64(kTileRows, last_row - row)), job.request.centre,
                                    job.centre_norms, program, packed + g * kTileRows * p, norms + g * kTileRows,
                                    offsets + g * kTileRows, n_rows);
    }
    for (int64_t panel = 0; panel * kColumns < job.n_columns; ++panel) {
        const int64_t column = panel * kColumns;
        for (int64_t g = 0; g < n_groups; ++g) {
            const int64_t row = first_row + g * kTileRows;
            if (job.request.symmetric && job.first_column + column + kColumns <= row) continue;
            for (int q = 0; q < program.n_passes; ++q)
                pair_tile_of<Real>(program.passes[q], packed + g * kTileRows * p, job.panels + column * p, p,
                                   tiles + q * kTileSize);
            run_program<Real>(
                program,
                {norms + g * kTileRows, centred ? offsets + g * kTileRows : nullptr, n_rows, job.norms + column,
                 centred ? job.offsets + column : nullptr, job.stride, job.centre_norms},
                kTileRows, kColumns, tiles, kTileSize, tiles + n_passes * kTileSize);
            outlet.emit(tiles, static_cast<int>(min64(kTileRows, last_row - row)),
                        static_cast<int>(min64(kColumns, job.n_columns - column)), kColumns, row,
                        job.first_column + column);
        }
    }
}

template <class Real, class Stored>
void dense_rows_task(void* context, int64_t task) {
    const auto& job = *static_cast<const DenseJob<Real, Stored>*>(context);
    const int64_t first = job.tasks.first_row(task);
    const int64_t last = min64(first + job.tasks.rows_per_task, job.request.left.count);
    Outlet<Real, Stored> outlet(job.sink, first, last - first, job.tasks.clear_mirrored(task, job.sink, job.n_columns),
                                job.first_column, job.n_columns);
    for (int64_t row = first; row < last; row += job.groups * kTileRows)
        dense_rows(job, row, min64(row + job.groups * kTileRows, last), outlet);
    outlet.finish();
}

template <class Real, class Stored>
void run_dense(const TileRequest& request, const Sink<Stored>& sink) {
    constexpr int kColumns = kTileColumns<Real>;
    const Program& program = request.program;
    const int64_t p = request.right.n_features, m = request.right.count, n_passes = program.n_passes;
    Scratch centre_memory(sizeof(double) * static_cast<std::size_t>(n_passes));
    double* centre_norms = centre_memory.as<double>();
    for (int q = 0; q < n_passes; ++q) {
        const Pass& pass = program.passes[q];
        centre_norms[q] = 0.0;
        for (int64_t j = 0; request.centre && pass.with_offsets && j < (pass.columns ? pass.n_columns : p); ++j) {
            const double value = request.centre[pass.columns ? pass.columns[j] : j];
            centre_norms[q] += value * value;
        }
    }
    const int64_t row_bytes = static_cast<int64_t>(sizeof(Real)) * max64(p, 1);
    const int64_t near = kPanelBytes / row_bytes;
    const int64_t most = sink.adds_mirrored(request) ? min64(near, kSymmetricColumns) : near;
    const int64_t chunk = min64(divide_up(m, kColumns), max64(1, most / kColumns)) * kColumns;
    const int64_t most_groups = sink.stored == nullptr ? kMaxGroups : kStoredGroups;
    const int64_t groups = min64(most_groups, max64(1, kLeftBytes / (row_bytes * kTileRows)));
    Scratch panels(sizeof(Real) * static_cast<std::size_t>(chunk * (p + 2 * n_passes)));
    const Tasks<Stored> tasks(request, sink, chunk, kTileRows, kTileRows, groups * kTileRows);
    for (int64_t first = 0; first < m; first += chunk) {
        DenseJob<Real, Stored> job{request,
                                   sink,
                                   tasks,
                                   centre_norms,
                                   first,
                                   min64(chunk, m - first),
                                   panels.as<Real>(),
                                   panels.as<Real>() + chunk * p,
                                   panels.as<Real>() + chunk * (p + n_passes),
                                   chunk,
                                   groups};
        const int packers = job.n_columns * p < kPackedAlone ? 1 : request.n_threads;
        parallel_for(divide_up(job.n_columns, kColumns), packers, pack_panel_task<Real, Stored>, &job);
        parallel_for(tasks.count, request.n_threads, dense_rows_task<Real, Stored>, &job);
        tasks.add_mirrored(sink, first, job.n_columns);
    }
}

constexpr int kBitColumns = kTileColumns<double>;

// words[panel][word][place], of as many rows as a panel has, or fewer: the places that are left are rows of zeros.
template <int Width>
void pack_bits(const RowsView& view, int64_t first, int count, uint64_t* packed) {
    const int64_t n_words = view.bits.n_words;
    for (int r = 0; r < Width; ++r) {
        const int64_t row = r >= count ? 0 : view.rows ? view.rows[first + r] : first + r;
        const uint64_t* words = view.bits.words + row * n_words;
        for (int64_t k = 0; k < n_words; ++k) packed[k * Width + r] = r < count ? words[k] : 0;
    }
}

template <class Stored>
struct BitJob {
    const TileRequest& request;
    const Sink<Stored>& sink;
    const Tasks<Stored>& tasks;
    int64_t first_column, n_columns;  // of the columns now packed
    uint64_t* panels;
    const double* powers;
    int n_digits;
    int64_t groups;  // of rows packed at a time
};

template <class Stored>
void pack_bits_task(void* context, int64_t panel) {
    const auto& job = *static_cast<const BitJob<Stored>*>(context);
    const int64_t first = panel * kBitColumns;
    pack_bits<kBitColumns>(job.request.right, job.first_column + first,
                           static_cast<int>(min64(kBitColumns, job.n_columns - first)),
                           job.panels + first * job.request.right.bits.n_words);
}

template <class Stored>
void bit_rows(const BitJob<Stored>& job, int64_t first_row, int64_t last_row, uint64_t* packed,
              Outlet<double, Stored>& outlet) {
    const RowsView& left = job.request.left;
    const int64_t n_words = left.bits.n_words, group_size = kTileRows * n_words;
    const int64_t n_groups = divide_up(last_row - first_row, kTileRows);
    auto rows_of = [&](int64_t g) { return static_cast<int>(min64(kTileRows, last_row - first_row - g * kTileRows)); };
    for (int64_t g = 0; g < n_groups; ++g)
        pack_bits<kTileRows>(left, first_row + g * kTileRows, rows_of(g), packed + g * group_size);
    double tile[kTileRows * kBitColumns];
    for (int64_t column = 0; column < job.n_columns; column += kBitColumns)
        for (int64_t g = 0; g < n_groups; ++g) {
            const int64_t row = first_row + g * kTileRows;
            if (job.request.symmetric && job.first_column + column + kBitColumns <= row) continue;
            job.request.bit_tile(packed + g * group_size, job.panels + column * n_words, n_words, job.powers,
                                 job.n_digits, tile);
            outlet.emit(tile, rows_of(g), static_cast<int>(min64(kBitColumns, job.n_columns - column)), kBitColumns,
                        row, job.first_column + column);
        }
}

template <class Stored>
void bit_rows_task(void* context, int64_t task) {
    const auto& job = *static_cast<const BitJob<Stored>*>(context);
    const int64_t first = job.tasks.first_row(task), at_a_time = job.groups * kTileRows;
    const int64_t last = min64(first + job.tasks.rows_per_task, job.request.left.count);
    Outlet<double, Stored> outlet(job.sink, first, last - first,
                                  job.tasks.clear_mirrored(task, job.sink, job.n_columns), job.first_column,
                                  job.n_columns);
    Scratch packed(sizeof(uint64_t) * static_cast<std::size_t>(at_a_time * job.request.left.bits.n_words));
    for (int64_t row = first; row < last; row += at_a_time)
        bit_rows(job, row, min64(row + at_a_time, last), packed.as<uint64_t>(), outlet);
    outlet.finish();
}

// powers[d][digit] = exp(scale step^2 digit 16^d), the factors of values between rows of so many bits; how many digits.
int powers_of(const TileRequest& request, double* powers) {
    const double step = request.left.bits.step, scale = request.program.arguments[1] * (step * step);
    int n_digits = 0;
    for (int64_t unit = 1; unit <= request.left.n_features; unit *= 16, ++n_digits)
        for (int digit = 0; digit < 16; ++digit)
            powers[16 * n_digits + digit] = digit == 0 ? 1.0 : __builtin_exp(scale * static_cast<double>(unit * digit));
    return n_digits;
}

template <class Stored>
void run_bits(const TileRequest& request, const Sink<Stored>& sink) {
    const int64_t m = request.right.count, n_words = request.right.bits.n_words;
    const int64_t near = kPanelBytes / (static_cast<int64_t>(sizeof(uint64_t)) * n_words);
    const int64_t most = sink.adds_mirrored(request) ? min64(near, kSymmetricColumns) : near;
    const int64_t chunk = min64(divide_up(m, kBitColumns), max64(1, most / kBitColumns)) * kBitColumns;
    const int64_t groups = sink.stored == nullptr ? kMaxGroups : kStoredGroups;
    double powers[16 * kMostDigits];
    const int n_digits = powers_of(request, powers);
    Scratch panels(sizeof(uint64_t) * static_cast<std::size_t>(chunk * n_words));
    const Tasks<Stored> tasks(request, sink, chunk, kTileRows, kTileRows, groups * kTileRows);
    for (int64_t first = 0; first < m; first += chunk) {
        BitJob<Stored> job{request, sink,     tasks, first, min64(chunk, m - first), panels.as<uint64_t>(),
                           powers,  n_digits, groups};
        const int packers = job.n_columns * n_words < kPackedAlone ? 1 : request.n_threads;
        parallel_for(divide_up(job.n_columns, kBitColumns), packers, pack_bits_task<Stored>, &job);
        parallel_for(tasks.count, request.n_threads, bit_rows_task<Stored>, &job);
        tasks.add_mirrored(sink, first, job.n_columns);
    }
}

template <class Real, class Stored>
struct SparseJob {
    const TileRequest& request;
    const Sink<Stored>& sink;
    const Tasks<Stored>& tasks;
    int64_t first_column, n_columns;  // of the columns now packed
    SparseBlock<Real>* blocks;
    const int32_t* places;  // of features: those of the table on the right, whichever side is in blocks
    int32_t n_common;
    const bool* chosen;  // [pass][feature]

    // Which features a pass takes; null for all.
    const bool* taken(int64_t pass) const {
        return request.program.passes[pass].columns ? chosen + pass * request.right.n_features : nullptr;
    }
};

// What a row knows of itself for a pass: measure<pairing>(), where it is asked for.
template <class Real, class Measure>
MERCER_INLINE Real norm_for(const Pass& pass, Measure measure) {
    if (!pass.with_norms) return 0;
    Real norm = 0;
    with_pairing(pass.pairing,
                 [&]<Pairing kPairing>() MERCER_LAMBDA_INLINE { norm = measure.template operator()<kPairing>(); });
    return norm;
}

// One thread's list heads, -1 for every rare feature.
class Heads {
  public:
    explicit Heads(const RowsView& right)
        : memory_(sizeof(int32_t) * static_cast<std::size_t>(right.n_features + 1)), heads_(memory_.as<int32_t>()) {
        for (int64_t k = 0; k < right.n_features; ++k) heads_[k] = -1;
    }
    int32_t* get() const { return heads_; }

  private:
    Scratch memory_;
    int32_t* heads_;
};

template <class Real, class Stored>
void pack_block_task(void* context, int64_t task) {
    const auto& job = *static_cast<const SparseJob<Real, Stored>*>(context);
    const RowsView& right = job.request.right;
    const int64_t first = task * kBlockColumns<Real>;
    const int count = static_cast<int>(min64(kBlockColumns<Real>, job.n_columns - first));
    const Heads heads(right);
    SparseBlock<Real>& block = job.blocks[task];
    with_csr(right, job.places, [&](const auto& rows) {
        pack_block(rows, job.first_column + first, count, job.n_common, heads.get(), block);
        for (int q = 0; q < job.request.program.n_passes; ++q)
            for (int c = 0; c < kBlockColumns<Real>; ++c)
                block.norms[q * kBlockColumns<Real> + c] =
                    c >= count ? 0 : norm_for<Real>(job.request.program.passes[q], [&]<Pairing kPairing>() {
                        const int64_t column = job.first_column + first + c;
                        return measure_row<Real, kPairing>(rows, column, job.n_common, job.taken(q));
                    });
    });
}

template <class Real, class Stored>
void sparse_rows_task(void* context, int64_t task) {
    constexpr int kColumns = kBlockColumns<Real>, kPanel = kPanelColumns<Real>;
    const auto& job = *static_cast<const SparseJob<Real, Stored>*>(context);
    const RowsView &left = job.request.left, &right = job.request.right;
    const int64_t first = job.tasks.first_row(task);
    const int64_t n_rows = min64(job.tasks.rows_per_task, left.count - first);
    const int32_t n_common = job.n_common;
    const Program& program = job.request.program;
    const int64_t n_passes = program.n_passes;
    int64_t room = 0;
    with_csr(left, job.places, [&](const auto& rows) {
        for (int64_t i = 0; i < n_rows; ++i) room += rows.length(first + i) + 1;
    });
    const auto n = static_cast<std::size_t>(room * n_passes), n_packed = static_cast<std::size_t>(n_rows * n_passes);
    Scratch common(n * sizeof(int32_t)), rare(n * sizeof(int32_t));
    Scratch common_values(n * sizeof(Real)), rare_values(n * sizeof(Real));
    Scratch packed_memory(sizeof(SparseRow<Real>) * n_packed), norm_memory(sizeof(Real) * n_packed);
    auto* packed = packed_memory.as<SparseRow<Real>>();  // [pass][row]
    Real* norms = norm_memory.as<Real>();
    with_csr(left, job.places, [&](const auto& rows) {
        int64_t at = 0;
        for (int64_t q = 0; q < n_passes; ++q)
            for (int64_t i = 0; i < n_rows; at += rows.length(first + i) + 1, ++i) {
                packed[q * n_rows + i] =
                    pack_row(rows, first + i, n_common, job.taken(q), common.as<int32_t>() + at,
                             rare.as<int32_t>() + at, common_values.as<Real>() + at, rare_values.as<Real>() + at);
                norms[q * n_rows + i] = norm_for<Real>(program.passes[q], [&]<Pairing kPairing>() {
                    return measure_row<Real, kPairing>(packed[q * n_rows + i]);
                });
            }
    });
    const Heads heads(right);
    constexpr int64_t kTileSize = kRowsPerPanel * kColumns;
    Scratch tile_memory(sizeof(Real) * static_cast<std::size_t>(kMaxStack * kColumns + n_passes * kTileSize));
    Real* tiles = tile_memory.as<Real>();
    Real* stack = tiles + n_passes * kTileSize;
    int64_t longest = 0;
    for (int64_t i = 0; i < n_rows * n_passes; ++i) longest = max64(longest, packed[i].n_rare);
    Scratch match_memory(sizeof(RareMatch<Real>) * static_cast<std::size_t>(2 * (longest + 1)));
    RareMatch<Real>* matches[] = {match_memory.as<RareMatch<Real>>(),
                                  match_memory.as<RareMatch<Real>>() + longest + 1};
    Outlet<Real, Stored> outlet(job.sink, first, n_rows, job.tasks.clear_mirrored(task, job.sink, job.n_columns),
                                job.first_column, job.n_columns);
    for (int64_t b = 0; b * kColumns < job.n_columns; ++b) {
        const SparseBlock<Real>& block = job.blocks[b];
        const int64_t column = job.first_column + b * kColumns;
        const int count = static_cast<int>(min64(kColumns, job.n_columns - b * kColumns));
        const int width = static_cast<int>(divide_up(count, kLanesOf<Real>)) * kLanesOf<Real>;
        for (int32_t f = 0; f < block.n_features; ++f) heads.get()[block.features[f]] = block.starts[f];
        for (int64_t i = 0; i < n_rows; i += kRowsPerPanel) {
            const int64_t end = min64(i + kRowsPerPanel, n_rows), below = max64(0, first + i - column);
            const int skipped = job.request.symmetric ? static_cast<int>(min64(below / kPanel, kSparsePanels)) : 0;
            const int start = skipped * kPanel;
            if (start >= count) continue;
            for (int64_t q = 0; q < n_passes; ++q)
                with_pairing(program.passes[q].pairing, [&]<Pairing kPairing>() MERCER_LAMBDA_INLINE {
                    const SparseRow<Real>* group = packed + q * n_rows;
                    Real* tile = tiles + q * kTileSize;
                    for (int panel = skipped; panel * kPanel < count; ++panel)
                        add_common<Real, kPairing>(group + i, static_cast<int>(end - i),
                                                   block.common + int64_t{panel} * n_common * kPanel, n_common,
                                                   tile + panel * kPanel, kColumns);
                    int32_t n_matches = match_rare<Real>(group[i], block.entries, heads.get(), matches[0]);
                    for (int64_t r = i; r < end; ++r) {
                        RareMatch<Real>*some = matches[(r - i) % 2], *next = matches[(r - i + 1) % 2];
                        const int32_t n = n_matches;
                        if (r + 1 < end) n_matches = match_rare<Real>(group[r + 1], block.entries, heads.get(), next);
                        add_rare<Real, kPairing>(some, n, block.entries, tile + (r - i) * kColumns);
                    }
                });
            for (int64_t r = i; r < end; ++r)
                run_program<Real>(program,
                                  {norms + r, nullptr, n_rows, block.norms + start, nullptr, kColumns, nullptr}, 1,
                                  width - start, tiles + (r - i) * kColumns + start, kTileSize, stack);
            outlet.emit(tiles + start, static_cast<int>(end - i), count - start, kColumns, first + i, column + start);
        }
        for (int32_t f = 0; f < block.n_features; ++f) heads.get()[block.features[f]] = -1;
    }
    outlet.finish();
}

template <class Real, class Stored>
void run_sparse(const TileRequest& request, const Sink<Stored>& sink, const int32_t* places, int32_t n_common) {
    constexpr int kColumns = kBlockColumns<Real>;
    const RowsView& right = request.right;
    const int64_t common_size = int64_t{n_common} * kColumns, m = right.count;
    const Program& program = request.program;
    const int64_t norms_size = int64_t{program.n_passes} * kColumns;
    const int64_t block_bytes = static_cast<int64_t>(sizeof(Real)) * (common_size + norms_size);
    const int64_t most = sink.adds_mirrored(request) ? kSymmetricColumns / kColumns : m;
    const int64_t n_blocks = min64(divide_up(m, kColumns), max64(1, min64(most, kPanelBytes / block_bytes)));
    const int64_t chunk = n_blocks * kColumns;
    const Tasks<Stored> tasks(request, sink, chunk, 1, kSparseRows, kMostSparseRows);
    Scratch block_memory(sizeof(SparseBlock<Real>) * static_cast<std::size_t>(n_blocks));
    Scratch common(static_cast<std::size_t>(block_bytes * n_blocks));
    Scratch chosen_memory(static_cast<std::size_t>(program.n_passes * right.n_features));
    bool* chosen = chosen_memory.as<bool>();
    for (int q = 0; q < program.n_passes; ++q, chosen += right.n_features) {
        const Pass& pass = program.passes[q];
        for (int64_t k = 0; pass.columns && k < right.n_features; ++k) chosen[k] = false;
        for (int64_t j = 0; pass.columns && j < pass.n_columns; ++j) chosen[pass.columns[j]] = true;
    }
    for (int64_t first = 0; first < m; first += chunk) {
        SparseJob<Real, Stored> job{request,
                                    sink,
                                    tasks,
                                    first,
                                    min64(chunk, m - first),
                                    block_memory.as<SparseBlock<Real>>(),
                                    places,
                                    n_common,
                                    chosen_memory.as<bool>()};
        int64_t n_entries = 0;
        with_csr(right, places, [&](const auto& rows) {
            for (int64_t c = 0; c < job.n_columns; ++c) n_entries += rows.length(first + c);
        });
        const auto n = static_cast<std::size_t>(n_entries);
        Scratch features(n * sizeof(int32_t)), starts(n * sizeof(int32_t)), lists(2 * n * sizeof(ListEntry<Real>));
        with_csr(right, places, [&](const auto& rows) {
            for (int64_t b = 0, at = 0; b * kColumns < job.n_columns; ++b) {
                Real* dense = common.as<Real>() + b * (common_size + norms_size);
                job.blocks[b] = {dense,
                                 dense + common_size,
                                 features.as<int32_t>() + at,
                                 starts.as<int32_t>() + at,
                                 lists.as<ListEntry<Real>>() + 2 * at,
                                 0};
                for (int64_t c = b * kColumns; c < min64((b + 1) * kColumns, job.n_columns); ++c)
                    at += rows.length(first + c);
            }
        });
        parallel_for(divide_up(job.n_columns, kColumns), request.n_threads, pack_block_task<Real, Stored>, &job);
        parallel_for(tasks.count, request.n_threads, sparse_rows_task<Real, Stored>, &job);
        tasks.add_mirrored(sink, first, job.n_columns);
    }
}

template <class Stored>
constexpr int64_t kMirrored = 2 * kLanesOf<Stored>;  // rows
constexpr int64_t kMirroredAhead = 32;               // rows that are asked for before they are read

template <class Stored>
struct MirrorJob {
    const Sink<Stored>& sink;
    int64_t size;
};

// Copies what is above the diagonal to below it, for as many rows as two vectors have lanes. It is written where it was
// written before, a little further on; what is read comes from other rows each time, which no processor foresees.
template <class Stored>
void mirror_task(void* context, int64_t task) {
    constexpr int kLane = kLanesOf<Stored>;
    const auto& job = *static_cast<const MirrorJob<Stored>*>(context);
    const int64_t stride = job.sink.stored_stride, first = task * kMirrored<Stored>;
    const int64_t last = min64(first + kMirrored<Stored>, job.size);
    Stored* out = job.sink.stored;
    for (int64_t column = 0; column < first; column += kLane) {
        for (int64_t ahead = column + kMirroredAhead; ahead < min64(column + kMirroredAhead + kLane, first); ++ahead)
            for (int64_t row = first; row < last; row += kLane) __builtin_prefetch(out + ahead * stride + row);
        for (int64_t row = first; row < last; row += kLane)
            turn_square(out + column * stride + row, stride, kLane, static_cast<int>(min64(kLane, last - row)),
                        out + row * stride + column, stride);
    }
    for (int64_t row = first; row < last; ++row)
        for (int64_t c = first; c < row; ++c) out[row * stride + c] = out[c * stride + row];
}

// Whether half of a matrix is copied sooner than it is evaluated. Beyond the near cache, copying reads and writes
// memory, and evaluating does so beside its own work.
template <class Real>
bool mirroring_pays(const TileRequest& request) {
    const RowsView& rows = request.left;
    if (rows.count * rows.count * static_cast<int64_t>(sizeof(Real)) <= kNearBytes) return true;
    int64_t terms = rows.count * rows.n_features;
    if (rows.kind == RowsKind::bits) return false;
    if (rows.kind == RowsKind::csr) {
        terms = 0;
        with_csr(rows, request.right.csr.places, [&](const auto& some) {
            for (int64_t i = 0; i < rows.count; ++i) terms += kEntryTerms * some.length(i);
        });
    }
    return terms * request.program.n_passes >= kMirroredTerms * rows.count;
}

// Whether the fewer ones, on the left, are better columns: these cost more to set up, and stay in the cache. Values of
// short rows take longer to store turned over.
bool turning_pays(const TileRequest& request) {
    const int64_t p = request.left.n_features;
    if (request.left.kind == RowsKind::bits) return false;
    return request.left.kind == RowsKind::csr || (p >= kTurnedFeatures && request.left.count < p);
}

template <class Real, class Stored>
void run(const TileRequest& request, const Sink<Stored>& sink) {
    if (request.left.count == 0 || request.right.count == 0) return;
    TileRequest asked = request;
    asked.symmetric = request.symmetric && (sink.stored == nullptr || mirroring_pays<Real>(request));
    Sink<Stored> into = sink;
    if (sink.stored != nullptr && request.left.count < request.right.count && turning_pays(request)) {
        asked.left = request.right, asked.right = request.left;
        into.turned = true;
    }
    if (request.left.kind == RowsKind::bits)
        run_bits(asked, into);
    else if (request.left.kind == RowsKind::csr)
        run_sparse<Real>(asked, into, request.right.csr.places, request.right.csr.n_common);
    else
        run_dense<Real>(asked, into);
    if (!asked.symmetric || sink.stored == nullptr) return;
    MirrorJob<Stored> job{sink, request.left.count};
    const int n_threads = job.size < kMirroredAlone ? 1 : request.n_threads;
    parallel_for(divide_up(job.size, kMirrored<Stored>), n_threads, mirror_task<Stored>, &job);
}

template <class Real>
void combine(const TileRequest& request, const double* vectors, int64_t n_vectors, double* out) {
    const int64_t n_right = request.right.count;
    const bool turn = n_vectors > 1 && n_vectors <= kFewVectors;
    Scratch memory(turn ? sizeof(double) * static_cast<std::size_t>(n_right * n_vectors) : 0);
    double* turned = memory.as<double>();
    for (int64_t j = 0; turn && j < n_right; ++j)
        for (int64_t t = 0; t < n_vectors; ++t) turned[t * n_right + j] = vectors[j * n_vectors + t];
    TileRequest asked = request;
    asked.symmetric = request.symmetric && n_vectors <= kFewVectors;
    run<Real>(asked, Sink<Real>{nullptr, 0, out, turn ? turned : vectors, n_vectors, n_right, false});
}

}  // namespace

void block(const TileRequest& request, double* out, int64_t out_stride) {
    run<double>(request, Sink<double>{out, out_stride, nullptr, nullptr, 0, 0, false});
}

void block_single(const TileRequest& request, float* out, int64_t out_stride) {
    run<float>(request, Sink<float>{out, out_stride, nullptr, nullptr, 0, 0, false});
}

void block_rounded(const TileRequest& request, float* out, int64_t out_stride) {
    run<double>(request, Sink<float>{out, out_stride, nullptr, nullptr, 0, 0, false});
}

void matvec(const TileRequest& request, const double* vectors, int64_t n_vectors, double* out) {
    combine<double>(request, vectors, n_vectors, out);
}

void matvec_single(const TileRequest& request, const double* vectors, int64_t n_vectors, double* out) {
    combine<float>(request, vectors, n_vectors, out);
}

}  // namespace mercer::MERCER_ISA
