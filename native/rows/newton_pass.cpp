// The pass of Newton's method, compiled once per instruction set (see simd.hpp). Rows are divided into groups with sums
// of their own, and a group into tiles, whose numbers stay in the cache from one kind of sum to the next.
#include "rows/newton_pass.hpp"

#include "parallel/parallel.hpp"
#include "rows/column_sums.hpp"
#include "rows/dense_products.hpp"
#include "rows/group_gram.hpp"
#include "rows/mirror.hpp"
#include "rows/term_kinds.hpp"

namespace mercer::MERCER_ISA {
namespace {

constexpr int64_t kTileRows = 1024;
constexpr int64_t kListedRows = 128;  // rows with coefficients that are added at a time
constexpr int64_t kMostPassGroups = 64;
constexpr int64_t kWorkOfGroup = int64_t{1} << 18;  // least number of multiplications

static_assert(kTileRows % kRows == 0 && kTileRows % kLanes == 0);

// The numbers of a group: its sums of columns, sum of coefficients, matrix and sums of terms.
struct GroupLayout {
    int64_t padded, gram_width;

    int64_t of_gram() const { return padded + kLanes; }
    int64_t size() const { return of_gram() + gram_width * gram_width; }
};

template <class Number, class Kind>
struct PassJob {
    const DenseRows<Number>& rows;
    const NewtonPass& pass;
    const Kind& kind;
    const double* vector;  // w without the constant, padded by zeros
    double offset;         // what the constant adds to each decision value
    GroupLayout layout;
    int64_t height;  // rows of a group
    double* numbers;
    PassSums* sums;
};

struct VectorSums {
    Vec total{}, loss{}, excess{}, beta{}, squares{}, curvature{}, change{};
};

struct TileNumbers {
    alignas(kVectorBytes) double beta[kTileRows], change[kTileRows];
};

template <class Number, class Kind>
MERCER_INLINE void multiply_tile(const PassJob<Number, Kind>& job, int64_t begin, int64_t end) {
    const WithVectors factors{job.vector, 0};
    for (int64_t i = begin; i < end; i += kRows) {
        const Number* some[kRows];
        job.rows.template point<kRows>(i, some);
        alignas(kVectorBytes) double products[kRows];
        multiply_rows<kRows, 1>(job.rows, some, factors, products);
        for (int64_t r = 0; r < kRows && i + r < end; ++r) job.pass.z[i + r] = products[r] + job.offset;
    }
}

template <class Number, class Kind>
MERCER_INLINE void find_terms(const PassJob<Number, Kind>& job, int64_t begin, int64_t end, TileNumbers& tile,
                              VectorSums& sums) {
    const NewtonPass& pass = job.pass;
    for (int64_t i = begin; i < end; i += kLanes) {
        const int64_t count = end - i;
        const TermRows rows = load_rows(pass.terms, i);
        const Vec z = load_some(pass.z + i, count, 0.0);
        const TermPoint at = job.kind.slopes(rows, z);
        const TermValues values = job.kind.values(rows, z, at.beta);
        Vec change = at.curvature;
        if (pass.curvature) {
            if (pass.is_update) change -= load_some(pass.curvature + i, count, 0.0);
            store_some(pass.curvature + i, at.curvature, count);
        }
        store(tile.beta + (i - begin), at.beta), store(tile.change + (i - begin), change);
        sums.total += values.total, sums.loss += values.loss, sums.excess += values.excess;
        sums.beta += at.beta, sums.squares += at.beta * at.beta, sums.curvature += at.curvature;
        sums.change += change < 0 ? -change : change;
    }
}

template <class Number>
MERCER_INLINE void add_pull(const DenseRows<Number>& rows, int64_t begin, int64_t end, const double* beta,
                            double* sums) {
    const Number* listed[kListedRows];
    double weights[kListedRows];
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) {
        listed[count] = rows[i], weights[count] = beta[i - begin];
        count += beta[i - begin] != 0.0;
        if (count == kListedRows || (i + 1 == end && count > 0)) {
            add_rows(listed, count, rows.n_padded, weights, 1, sums);
            count = 0;
        }
    }
}

template <class Number, class Kind>
void group_task(void* context, int64_t group) {
    const auto& job = *static_cast<const PassJob<Number, Kind>*>(context);
    const NewtonPass& pass = job.pass;
    const int64_t n = job.rows.n_rows, first = group * job.height,
                  last = first + job.height < n ? first + job.height : n;
    double *pull = job.numbers + group * job.layout.size(), *gram = pull + job.layout.of_gram();
    for (int64_t s = 0; s < job.layout.size(); ++s) pull[s] = 0.0;
    GramSums gram_sums(pass.table, pass.scales, gram);
    TileNumbers tile;
    VectorSums sums;
    for (int64_t begin = first; begin < last; begin += kTileRows) {
        const int64_t end = begin + kTileRows < last ? begin + kTileRows : last;
        if (pass.w) multiply_tile(job, begin, end);
        find_terms(job, begin, end, tile, sums);
        add_pull(job.rows, begin, end, tile.beta, pull);
        int64_t changed[kTileRows], n_changed = 0;
        for (int64_t i = begin; i < end; ++i) changed[n_changed] = i, n_changed += tile.change[i - begin] != 0.0;
        gram_sums.add(job.rows, changed, n_changed, {tile.change, begin});
        gram_sums.flush(job.rows);
    }
    pull[job.layout.padded] = sum(sums.beta);
    job.sums[group] = {
        {sum(sums.total), sum(sums.loss), sum(sums.excess)}, sum(sums.squares), sum(sums.curvature), sum(sums.change)};
}

// Rows of a group, a multiple of those of a tile.
int64_t group_height(int64_t n, int64_t q) {
    int64_t groups = n * q * 4 / kWorkOfGroup;
    groups = groups < 1 ? 1 : groups > kMostPassGroups ? kMostPassGroups : groups;
    const int64_t height = round_up((n + groups - 1) / groups, kTileRows);
    return height < kTileRows ? kTileRows : height;
}

template <class Number, class Kind>
PassSums pass_over(const NewtonPass& pass, const Kind& kind, int n_threads) {
    const LinearTable& table = pass.table;
    const int64_t n = table.n_rows, p = table.n_columns, q = table.width();
    const DenseRows<Number> rows(table);
    const GroupLayout layout{rows.n_padded, round_up(q, kPanel)};
    const int64_t height = group_height(n, q), n_groups = (n + height - 1) / height, size = layout.size();
    Scratch memory(sizeof(double) * static_cast<std::size_t>(n_groups * size + rows.n_padded) +
                   sizeof(PassSums) * static_cast<std::size_t>(n_groups + 1));
    auto* numbers = memory.as<double>();
    auto* vector = numbers + n_groups * size;
    auto* sums = reinterpret_cast<PassSums*>(vector + rows.n_padded);
    for (int64_t j = 0; j < rows.n_padded; ++j) vector[j] = pass.w && j < p ? pass.w[j] : 0.0;
    const double offset = pass.w && q > p ? table.constant * pass.w[p] : 0.0;
    PassJob<Number, Kind> job{rows, pass, kind, vector, offset, layout, height, numbers, sums};
    parallel_for(n_groups, n_threads, group_task<Number, Kind>, &job);
    PassSums all{};
    for (int64_t j = 0; j < q; ++j) pass.pull[j] = 0.0;
    for (int64_t g = 0; g < n_groups; ++g) {
        const double* group_sums = numbers + g * size;
        for (int64_t j = 0; j < p; ++j) pass.pull[j] += group_sums[j];
        if (q > p) pass.pull[p] += table.constant * group_sums[layout.padded];
        all.terms.total += sums[g].terms.total, all.terms.loss += sums[g].terms.loss;
        all.terms.excess += sums[g].terms.excess, all.squares += sums[g].squares;
        all.curvature += sums[g].curvature, all.change += sums[g].change;
    }
    add_mirrored({pass.gram, q, numbers + layout.of_gram(), n_groups, size, layout.gram_width}, n_threads);
    return all;
}

}  // namespace

PassSums newton_pass(const NewtonPass& pass, int n_threads) {
    PassSums pass_sums{};
    with_numbers(pass.table, [&]<class Number>(const Number*) {
        with_kind(pass.terms, [&](const auto& kind) { pass_sums = pass_over<Number>(pass, kind, n_threads); });
        return true;
    });
    return pass_sums;
}

}  // namespace mercer::MERCER_ISA
