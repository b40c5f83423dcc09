CREATE MATERIALIZED VIEW warmest AS
SELECT origin, max(temp) AS temp, max_by(time_hour, temp) AS at
FROM weather
GROUP BY origin;
