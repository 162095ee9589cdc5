-- The analysis of the droplets in an airway, one statement per plot. The path uses a 10 % sample, so each
-- row counts as ten. The flux uses a slab of 4 mm around the section.

-- path: the average path of airborne droplets
SELECT time, avg(x) AS x, avg(y) AS y, avg(z) AS z, count(*) * 10 AS droplets
FROM k.droplets TABLESAMPLE (10 PERCENT)
WHERE NOT deposited
GROUP BY time
ORDER BY time;

-- deposition: deposited at the end, in regions of 2 cm
SELECT CAST(floor(x / 0.02) AS INT) AS region, count(*) AS droplets, sum(power(diameter, 3)) AS volume
FROM k.droplets
WHERE deposited AND time = (SELECT max(time) FROM k.droplets)
GROUP BY 1
ORDER BY 1;

-- flux: flux through the section at x = 0.1 m
SELECT time, sum(ux) / 0.004 AS droplets_a_second, count(*) AS seen
FROM k.droplets
WHERE x BETWEEN 0.098 AND 0.102 AND NOT deposited
GROUP BY time
ORDER BY time;
