package org.kubist.bench;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The measurements as Markdown tables. */
final class Report {
    private final long rows;
    private final int turns;
    private final List<Store> stores;
    private final Map<String, Map<String, List<Watch.Cost>>> costs = new LinkedHashMap<>();
    private final Map<String, Long> sizes = new HashMap<>();

    Report(long rows, int turns, List<Store> stores) {
        this.rows = rows;
        this.turns = turns;
        this.stores = stores;
    }

    void question(String question, Store store, Watch.Cost cost) {
        costs.computeIfAbsent(question, key -> new HashMap<>()).computeIfAbsent(store.name(), key -> new ArrayList<>()).add(cost);
    }

    void ingest(Store store, Watch.Cost cost) {
        question("ingest", store, cost);
    }

    void size(Store store, long bytes) {
        sizes.put(store.name(), bytes);
    }

    private static Watch.Cost median(List<Watch.Cost> costs) {
        List<Watch.Cost> sorted = new ArrayList<>(costs);
        sorted.sort((one, other) -> Double.compare(one.seconds(), other.seconds()));
        return sorted.get(sorted.size() / 2);
    }

    private static String cell(Watch.Cost cost) {
        return String.format(Locale.ROOT, "%.3f; %.2f; %.2f; %.1f", cost.seconds(), cost.processor(), cost.tasks(), cost.bytes() / 1e6);
    }

    String text() {
        StringBuilder text = new StringBuilder();
        text.append(String.format(
                Locale.ROOT, "%n%,d rows; medians of at most %d: seconds; processor seconds; seconds of all tasks; MB read%n%n|", rows, turns));
        stores.forEach(store -> text.append(" | ").append(store.title()));
        text.append(" |\n|---").append("|---:".repeat(stores.size())).append("|\n");
        for (Map.Entry<String, Map<String, List<Watch.Cost>>> question : costs.entrySet()) {
            text.append("| ").append(question.getKey());
            for (Store store : stores) {
                List<Watch.Cost> measured = question.getValue().get(store.name());
                text.append(" | ").append(measured == null ? "" : cell(median(measured)));
            }
            text.append(" |\n");
        }
        text.append("| MB on disk");
        stores.forEach(store -> text.append(String.format(Locale.ROOT, " | %.0f", sizes.get(store.name()) / 1e6)));
        return text.append(" |\n").toString();
    }
}
