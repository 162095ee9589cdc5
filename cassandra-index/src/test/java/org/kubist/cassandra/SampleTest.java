package org.kubist.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class SampleTest {
    @Test
    void boundsAreExactAndUnsigned() {
        Sample half = Sample.parse("precision=0.5");
        assertTrue(half.holds(0) && half.holds(Long.MAX_VALUE));
        assertFalse(half.holds(Long.MIN_VALUE) || half.holds(-1));
        Sample all = Sample.parse(" precision = 1 ");
        assertEquals(Sample.ALL, all);
        assertTrue(all.holds(-1) && all.holds(0));
        assertTrue(Sample.parse("precision=0").isEmpty());
        assertFalse(Sample.parse("precision=0").holds(0));
        assertTrue(Sample.parse("precision=5e-324").holds(0));
    }

    @Test
    void windowsDoNotOverlap() {
        Sample low = Sample.parse("precision=0.3"), high = Sample.parse("precision=0.3..0.7:hecuba-1");
        assertEquals(low.high(), high.low());
        assertFalse(high.holds(low.last()));
        assertTrue(high.holds(low.last() + 1));
    }

    @Test
    void otherExpressionsAreRefused() {
        for (String text : new String[] {"", "0.3", "precision=", "precision=1.5", "precision=-0.1", "precision=NaN",
            "precision=0.5..0.2", "rows=10", "precision=0.3 x"})
            assertTrue(assertThrows(IllegalArgumentException.class, () -> Sample.parse(text)).getMessage().contains(text));
    }
}
