// Weighted sums of rows, their Gram matrix, and sums of squares of columns, compiled once per instruction set (see
// simd.hpp). A group of rows has its own sums; the sums of the groups are added in order.
#include "linear/column_sums.hpp"
#include "linear/gram.hpp"
#include "linear/row_groups.hpp"
#include "linear/threads.hpp"

namespace mercer::MERCER_ISA {
namespace {

constexpr int64_t kPackedRows = 128;      // rows that are packed for a Gram matrix at a time
constexpr int64_t kMostTileRows = 128;    // rows that are added at a time
constexpr int64_t kTileBytes = 24 << 10;  // of these rows, so that they stay in the first cache
// Largest width of a Gram matrix of which each group has its own; threads share the blocks of wider ones.
constexpr int64_t kMostOwnWidth = 256;
constexpr int64_t kWidePackedRows = 256;

bool is_visited(const WeightedSums& request, int64_t i) {
    if (request.gram_weights && request.gram_weights[i] != 0.0) return true;
    for (int64_t k = 0; k < request.n_sums; ++k)
        if (request.weights[i * request.n_sums + k] != 0.0) return true;
    return false;
}

// The sums of a group: first those of weighted rows, then those of the weights, which belong to the constant, and then
// the Gram matrix.
struct Layout {
    int64_t n_sums, padded, gram_width;  // 0: no Gram matrix

    int64_t of_weights() const { return n_sums * padded; }
    int64_t of_gram() const { return round_up(of_weights() + n_sums, kLanes); }
    int64_t size() const { return of_gram() + gram_width * gram_width; }
};

void add_weights(const double* weights, int64_t count, int64_t n_sums, double* totals) {
    for (int64_t i = 0; i < count; ++i)
        for (int64_t k = 0; k < n_sums; ++k) totals[k] += weights[i * n_sums + k];
}

// Adds rows to the sums of a group; dense rows wait until a tile of them is complete.
template <class Number>
class DenseSums {
  public:
    DenseSums(const DenseRows<Number>& rows, const WeightedSums& request, const Layout& layout, double* sums)
        : rows_(rows),
          request_(request),
          layout_(layout),
          sums_(sums),
          height_(tile_rows(rows.n_padded)),
          memory_(sizeof(double) * static_cast<std::size_t>(height_ * request.n_sums + 1)),
          weights_(memory_.as<double>()) {}

    bool add(int64_t i) {
        const int64_t n_sums = request_.n_sums;
        tile_[count_] = rows_[i];
        for (int64_t k = 0; k < n_sums; ++k) weights_[count_ * n_sums + k] = request_.weights[i * n_sums + k];
        if (++count_ == height_) flush();
        return true;
    }

    void flush() {
        add_rows(tile_, count_, layout_.padded, weights_, request_.n_sums, sums_);
        add_weights(weights_, count_, request_.n_sums, sums_ + layout_.of_weights());
        count_ = 0;
    }

    // sums are [k][j] here
    static double at(const double* sums, const Layout& layout, int64_t j, int64_t k) {
        return sums[k * layout.padded + j];
    }

  private:
    static int64_t tile_rows(int64_t n_padded) {
        const int64_t fit = kTileBytes / (n_padded * static_cast<int64_t>(sizeof(Number)));
        return fit < 8 ? 8 : fit < kMostTileRows ? fit : kMostTileRows;
    }

    const DenseRows<Number>& rows_;
    const WeightedSums& request_;
    const Layout& layout_;
    double* sums_;
    const int64_t height_;
    Scratch memory_;
    double* weights_;
    const Number* tile_[kMostTileRows];
    int64_t count_ = 0;
};

template <class Number, class Index>
class SparseSums {
  public:
    SparseSums(const SparseRows<Number, Index>& rows, const WeightedSums& request, const Layout& layout, double* sums)
        : rows_(rows), request_(request), layout_(layout), sums_(sums) {}

    bool add(int64_t i) {
        const int64_t n_sums = request_.n_sums;
        const auto row = rows_[i];
        const double* __restrict weights = request_.weights + i * n_sums;
        if (n_sums == 1)
            for (int64_t e = 0; e < row.count; ++e)
                sums_[row.columns[e]] += weights[0] * static_cast<double>(row.values[e]);
        else
            for (int64_t e = 0; e < row.count; ++e) {
                double* __restrict to = sums_ + static_cast<int64_t>(row.columns[e]) * n_sums;
                const auto x = static_cast<double>(row.values[e]);
                for (int64_t k = 0; k < n_sums; ++k) to[k] += weights[k] * x;
            }
        add_weights(weights, 1, n_sums, sums_ + layout_.of_weights());
        return row.in_range;
    }

    void flush() {}

    // sums are [j][k] here
    static double at(const double* sums, const Layout& layout, int64_t j, int64_t k) {
        return sums[j * layout.n_sums + k];
    }

  private:
    const SparseRows<Number, Index>& rows_;
    const WeightedSums& request_;
    const Layout& layout_;
    double* sums_;
};

template <class Number>
DenseSums<Number> sums_for(const DenseRows<Number>&);
template <class Number, class Index>
SparseSums<Number, Index> sums_for(const SparseRows<Number, Index>&);
template <class Rows>
using SumsOf = decltype(sums_for(static_cast<const Rows&>(*static_cast<const Rows*>(nullptr))));

template <class Number>
bool put(PackedRows& packed, int64_t at, const DenseRows<Number>& rows, int64_t i, double weight) {
    packed.put(at, rows, i, weight);
    return true;
}
template <class Number, class Index>
bool put(PackedRows& packed, int64_t at, const SparseRows<Number, Index>& rows, int64_t i, double weight) {
    return packed.put(at, rows, i, weight);
}

// Rows that wait to be added to the Gram matrix of a group.
class GramSums {
  public:
    GramSums(const WeightedSums& request, double* gram)
        : request_(request),
          packed_(request.table.n_columns, request.table.constant, request.scales, kPackedRows),
          gram_(gram) {}

    template <class Rows>
    bool add(const Rows& rows, int64_t i) {
        const double weight = request_.gram_weights[i];
        if (weight == 0.0) return true;
        const bool in_range = put(packed_, count_, rows, i, weight);
        if (++count_ == kPackedRows) flush();
        return in_range;
    }

    void flush() {
        for (int64_t panel = 0; panel < packed_.width / kPanel; ++panel) packed_.add_panel(panel, count_, gram_);
        count_ = 0;
    }

  private:
    const WeightedSums& request_;
    PackedRows packed_;
    double* gram_;
    int64_t count_ = 0;
};

template <class Rows>
struct GroupJob {
    const Rows& rows;
    const WeightedSums& request;
    const RowGroups& groups;
    Layout layout;
    double* sums;  // of all groups
    bool in_range;
};

template <class Rows>
void group_task(void* context, int64_t group) {
    auto& job = *static_cast<GroupJob<Rows>*>(context);
    const WeightedSums& request = job.request;
    double* sums = job.sums + group * job.layout.size();
    for (int64_t s = 0; s < job.layout.size(); ++s) sums[s] = 0.0;
    bool in_range = true;
    SumsOf<Rows> of_rows(job.rows, request, job.layout, sums);
    auto visit = [&](auto... gram) MERCER_LAMBDA_INLINE {
        for (int64_t i = job.groups.first(group); i < job.groups.last(group); ++i) {
            if (!is_visited(request, i)) continue;
            if (request.n_sums > 0) in_range = of_rows.add(i) && in_range;
            ((in_range = gram->add(job.rows, i) && in_range), ...);
        }
        if (request.n_sums > 0) of_rows.flush();
        (gram->flush(), ...);
    };
    if (job.layout.gram_width > 0) {
        GramSums gram(request, sums + job.layout.of_gram());
        visit(&gram);
    } else {
        visit();
    }
    if (!in_range) __atomic_store_n(&job.in_range, false, __ATOMIC_RELAXED);
}

// Adds the upper triangles of matrices of `width` columns, `distance` apart, to both triangles of the result.
struct MirrorJob {
    const WeightedSums& request;
    const double* grams;
    int64_t count, distance, width;
};

void mirror_task(void* context, int64_t j) {
    const auto& job = *static_cast<const MirrorJob*>(context);
    const int64_t q = job.request.table.width();
    for (int64_t l = j; l < q; ++l) {
        double total = 0.0;
        for (int64_t g = 0; g < job.count; ++g) total += job.grams[g * job.distance + j * job.width + l];
        job.request.gram[j * q + l] += total;
        if (l != j) job.request.gram[l * q + j] += total;
    }
}

void add_mirrored(MirrorJob job, int n_threads) {
    const int64_t q = job.request.table.width();
    parallel_for(q, threads_for(q * q * job.count, n_threads), mirror_task, &job);
}

template <class Rows>
bool sum_in_groups(const Rows& rows, const WeightedSums& request, RowCost cost, bool with_gram, int n_threads) {
    const LinearTable& table = request.table;
    const int64_t q = table.width(), p = table.n_columns, K = request.n_sums;
    const Layout layout{K, round_up(p, kLanes), with_gram ? round_up(q, kPanel) : 0};
    const RowGroups groups(request, cost, layout.size(), n_threads);
    Scratch memory(sizeof(double) * static_cast<std::size_t>(groups.count() * layout.size()));
    GroupJob<Rows> job{rows, request, groups, layout, memory.as<double>(), true};
    parallel_for(groups.count(), n_threads, group_task<Rows>, &job);
    if (!job.in_range) return false;
    const int64_t n_groups = groups.count(), size = layout.size();
    for (int64_t j = 0; j < p; ++j)
        for (int64_t k = 0; k < K; ++k) {
            double total = 0.0;
            for (int64_t g = 0; g < n_groups; ++g) total += SumsOf<Rows>::at(job.sums + g * size, layout, j, k);
            request.sums[j * K + k] = total;
        }
    for (int64_t k = 0; k < K && q > p; ++k) {
        double total = 0.0;
        for (int64_t g = 0; g < n_groups; ++g) total += job.sums[g * size + layout.of_weights() + k];
        request.sums[p * K + k] = table.constant * total;
    }
    if (with_gram) add_mirrored({request, job.sums + layout.of_gram(), n_groups, size, layout.gram_width}, n_threads);
    return true;
}

// The Gram matrix of a wide table: rows are packed by all threads, and then each thread adds panels of the matrix.
template <class Rows>
struct WideJob {
    const Rows& rows;
    const WeightedSums& request;
    PackedRows& packed;
    double* gram;
    int64_t chosen[kWidePackedRows];
    int64_t count;
    bool in_range;
};

constexpr int64_t kPackedPerTask = 32;

template <class Rows>
void pack_task(void* context, int64_t task) {
    auto& job = *static_cast<WideJob<Rows>*>(context);
    bool in_range = true;
    for (int64_t at = task * kPackedPerTask; at < (task + 1) * kPackedPerTask && at < job.count; ++at)
        in_range = put(job.packed, at, job.rows, job.chosen[at], job.request.gram_weights[job.chosen[at]]) && in_range;
    if (!in_range) __atomic_store_n(&job.in_range, false, __ATOMIC_RELAXED);
}

template <class Rows>
void panel_task(void* context, int64_t panel) {
    const auto& job = *static_cast<const WideJob<Rows>*>(context);
    job.packed.add_panel(panel, job.count, job.gram);
}

template <class Rows>
bool add_wide_gram(const Rows& rows, const WeightedSums& request, int n_threads) {
    const LinearTable& table = request.table;
    PackedRows packed(table.n_columns, table.constant, request.scales, kWidePackedRows);
    const int64_t width = packed.width;
    Scratch memory(sizeof(double) * static_cast<std::size_t>(width * width));
    WideJob<Rows> job{rows, request, packed, memory.as<double>(), {}, 0, true};
    for (int64_t s = 0; s < width * width; ++s) job.gram[s] = 0.0;
    for (int64_t i = 0; i < table.n_rows && job.in_range; job.count = 0) {
        for (; i < table.n_rows && job.count < kWidePackedRows; ++i)
            if (request.gram_weights[i] != 0.0) job.chosen[job.count++] = i;
        parallel_for((job.count + kPackedPerTask - 1) / kPackedPerTask, n_threads, pack_task<Rows>, &job);
        parallel_for(width / kPanel, n_threads, panel_task<Rows>, &job);
    }
    if (!job.in_range) return false;
    add_mirrored({request, job.gram, 1, 0, width}, n_threads);
    return true;
}

template <class Rows>
bool sum_rows(const Rows& rows, const WeightedSums& request, double count, int n_threads) {
    const auto q = static_cast<double>(request.table.width());
    const bool with_gram = request.gram_weights != nullptr, own = request.table.width() <= kMostOwnWidth;
    const RowCost cost{count * static_cast<double>(request.n_sums), with_gram && own ? q * (q + 8.0) / 8.0 : 0.0};
    if (request.n_sums > 0 || own) {
        WeightedSums narrow = request;
        if (!own) narrow.gram_weights = nullptr;
        if (!sum_in_groups(rows, narrow, cost, with_gram && own, n_threads)) return false;
    }
    return !with_gram || own || add_wide_gram(rows, request, n_threads);
}

// Sums of squares of the columns, of a group of rows.
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

bool weighted_sums(const WeightedSums& request, int n_threads) {
    const LinearTable& table = request.table;
    if (!table.is_sparse())
        return with_numbers(table, [&]<class Number>(const Number*) {
            return sum_rows(DenseRows<Number>(table), request, static_cast<double>(table.n_columns), n_threads);
        });
    return with_sparse_rows(
        table, [&](const auto& rows) { return sum_rows(rows, request, 2.0 * rows.mean_count() + 4.0, n_threads); });
}

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
