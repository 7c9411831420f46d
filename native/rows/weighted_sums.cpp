// Weighted sums of rows and their Gram matrix, compiled once per instruction set (see simd.hpp). A group of rows has
// its own sums; the sums of the groups are added in order.
#include "rows/group_gram.hpp"
#include "rows/group_sums.hpp"
#include "rows/mirror.hpp"
#include "rows/row_groups.hpp"
#include "rows/weighted_rows.hpp"
#include "rows/wide_gram.hpp"

namespace mercer::MERCER_ISA {

namespace {

template <class Rows>
struct GroupJob {
    const Rows& rows;
    const WeightedSums& request;
    const RowGroups& groups;
    Layout layout;
    bool outer;    // whether products of entries are added one by one
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
        RowsWithWeight visited(request, job.groups.first(group), job.groups.last(group));
        int64_t list[kMostTileRows];
        const int64_t height = SumsOf<Rows>::height(job.rows);
        while (const int64_t count = visited.list(list, height)) {
            if (request.n_sums > 0) in_range = of_rows.add(list, count) && in_range;
            ((in_range = gram->add(job.rows, list, count, {request.gram_weights, 0}) && in_range), ...);
        }
        ((in_range = gram->flush(job.rows) && in_range), ...);
    };
    double* gram_sums = sums + job.layout.of_gram();
    if (job.layout.gram_width == 0) {
        visit();
    } else if (job.outer) {
        if constexpr (Rows::kIsSparse) {
            OuterSums gram(request, job.layout.gram_width, gram_sums);
            visit(&gram);
        }
    } else {
        GramSums gram(request.table, request.scales, gram_sums);
        visit(&gram);
    }
    if (!in_range) __atomic_store_n(&job.in_range, false, __ATOMIC_RELAXED);
}

template <class Rows>
bool sum_in_groups(const Rows& rows, const WeightedSums& request, RowCost cost, bool outer, int n_threads) {
    const LinearTable& table = request.table;
    const bool with_gram = request.gram_weights != nullptr;
    const int64_t q = table.width(), p = table.n_columns, K = request.n_sums;
    const Layout layout{K, round_up(p, kLanes), with_gram ? round_up(q, kPanel) : 0};
    const RowGroups groups(request, cost, layout.size(), n_threads);
    Scratch memory(sizeof(double) * static_cast<std::size_t>(groups.count() * layout.size()));
    GroupJob<Rows> job{rows, request, groups, layout, outer, memory.as<double>(), true};
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
    if (with_gram)
        add_mirrored({request.gram, q, job.sums + layout.of_gram(), n_groups, size, layout.gram_width}, n_threads);
    return true;
}

template <class Rows>
bool sum_rows(const Rows& rows, const WeightedSums& request, double count, bool outer, int n_threads) {
    const auto q = static_cast<double>(request.table.width());
    const bool adds_gram = request.gram_weights && (outer || request.table.width() <= kMostOwnWidth);
    const double gram_cost = outer ? count * count : q * (q + 8.0) / 8.0;
    if (request.n_sums > 0 || adds_gram) {
        WeightedSums in_groups = request;
        if (!adds_gram) in_groups.gram_weights = nullptr;
        const RowCost cost{count * static_cast<double>(request.n_sums), adds_gram ? gram_cost : 0.0};
        if (!sum_in_groups(rows, in_groups, cost, outer, n_threads)) return false;
    }
    return !request.gram_weights || adds_gram || add_wide_gram(rows, request, n_threads);
}

}  // namespace

bool weighted_sums(const WeightedSums& request, int n_threads) {
    const LinearTable& table = request.table;
    if (!table.is_sparse())
        return with_numbers(table, [&]<class Number>(const Number*) {
            return sum_rows(DenseRows<Number>(table), request, static_cast<double>(table.n_columns), false, n_threads);
        });
    return with_sparse_rows(table, [&](const auto& rows) {
        const double mean = rows.mean_count();
        const bool outer = OuterSums::is_faster(mean, static_cast<double>(table.width()));
        return sum_rows(rows, request, 2.0 * mean + 4.0, outer, n_threads);
    });
}

}  // namespace mercer::MERCER_ISA
