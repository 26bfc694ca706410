"""Miniature files in the formats of the publishers."""

from pathlib import Path

import numpy as np
import pandas as pd

from conftest import network


def write_pm25(folder: Path, *, days: int = 40, stations: int = 3) -> None:
    """pm25_ground.txt, pm25_missing.txt and pm25_latlng.txt, from February on."""
    steps = 24 * days
    cube = network(steps=steps, stations=stations, measurements=1, missing=0.1)
    names = [f"00100{n + 1}" for n in range(stations)]
    timestamps = pd.date_range("2015-02-01 01:00", periods=steps, freq="h")
    ground = pd.DataFrame(cube.to_numpy()[:, :, 0].round(0), index=timestamps, columns=names)
    ground.index = ground.index.strftime("%Y/%m/%d %H:%M:%S")
    ground.index.name = "datetime"
    rng = np.random.default_rng(1)
    remaining = ground.where(rng.random(ground.shape) > 0.1)
    for name, table in (("pm25_ground.txt", ground), ("pm25_missing.txt", remaining)):
        table.to_csv(folder / name)
    places = pd.DataFrame(
        {"sensor_id": names, "latitude": 40.0 + np.arange(stations) / 10, "longitude": 116.2}
    )
    places.to_csv(folder / "pm25_latlng.txt", index=False)


def write_urban_air(folder: Path) -> None:
    """meteorology.csv, district.csv and station.csv: two districts of Beijing, one elsewhere."""
    (folder / "meteorology.csv").write_text(
        "id,time,weather,temperature,pressure,humidity,wind_speed,wind_direction\n"
        "101,2014-05-01 01:00:00,0,20.5,1010,44,1,2\n"
        "101,2014-05-01 01:00:00,0,21.5,1010,45,1,2\n"
        "101,2014-05-01 02:00:00,0,,1010,50,1,2\n"
        "102,2014-05-01 01:00:00,0,19,1010,60,1,2\n"
        "901,2014-05-01 01:00:00,0,5,1010,10,1,2\n"
    )
    (folder / "district.csv").write_text(
        "district_id,name_chinese,name_english,city_id\n101,a,A,1\n102,b,B,1\n901,c,C,9\n"
    )
    (folder / "station.csv").write_text(
        "station_id,name_chinese,name_english,latitude,longitude,district_id\n"
        "1001,a,a,40.0,116.0,101\n1002,b,b,40.2,116.4,101\n1003,c,c,39.5,116.5,102\n"
    )


def write_kdd2018(folder: Path, *, suffixes: bool) -> None:
    """Air quality and weather of two of the 11 stations, in either convention."""
    air, weather = ("_aq", "_meo") if suffixes else ("", "")
    fengtai = "fengtai" if suffixes else "fengtaihuayuan"
    names = (
        ("beijing_17_18_aq.csv", "beijing_17_18_meo.csv")
        if suffixes
        else ("beijing_201802_201803_aq.csv", "beijing_201802_201803_me.csv")
    )
    first = "2017-01-01" if suffixes else "2018-02-01"
    (folder / names[0]).write_text(
        f"{'stationId' if suffixes else 'station_id'},utc_time,PM2.5,PM10,NO2,CO,O3,SO2\n"
        f"shunyi{air},{first} 14:00:00,10,20,30,0.4,50,6\n"
        f"shunyi{air},{first} 14:00:00,11,20,30,0.4,50,6\n"
        f"shunyi{air},{first} 16:00:00,,21,31,0.5,51,7\n"
        f"fengtaihuayuan{air},{first} 15:00:00,40,50,60,1.4,80,9\n"
        f"dongsi{air},{first} 14:00:00,1,1,1,1,1,1\n"
    )
    places = ",longitude,latitude" if suffixes else ""
    degrees = {"shunyi": ",116.65,40.13", fengtai: ",116.25,39.87"} if suffixes else {}
    (folder / names[1]).write_text(
        f"station_id{places},utc_time,temperature,pressure,humidity,wind_direction,wind_speed,"
        "weather\n"
        f"shunyi{weather}{degrees.get('shunyi', '')},{first} 14:00:00,-1.5,1020,30,350,2.5,Hail\n"
        f"shunyi{weather}{degrees.get('shunyi', '')},{first} 15:00:00,999999,1021,31,999017,0.4,"
        "Sunny/clear\n"
        f"{fengtai}{weather}{degrees.get(fengtai, '')},{first} 15:00:00,3,1019,40,10,1.0,Volcano\n"
    )


def write_stations(folder: Path) -> None:
    """The list of all 11 stations, with a byte order mark as published."""
    from cdsa.datasets.kdd2018 import STATIONS

    rows = "".join(f"40.{n},116.{n},Urban,X,{name}\n" for n, name in enumerate(STATIONS, 10))
    text = "latitude,longitude,siteType,siteName,stationId\n" + rows
    (folder / "Beijing_AirQuality_Stations.csv").write_text(text, encoding="utf-8-sig")


def traffic(steps: int = 240, sensors: int = 3) -> pd.DataFrame:
    """Speeds in the form of METR-LA: a row per five minutes, a column per sensor, 0 for missing."""
    cube = network(steps=steps, stations=sensors, measurements=1, missing=0.1)
    timestamps = pd.date_range("2012-03-01", periods=steps, freq="5min")
    names = [str(773869 + n) for n in range(sensors)]
    return pd.DataFrame(cube.to_numpy()[:, :, 0], index=timestamps, columns=names).fillna(0.0)


def write_traffic(folder: Path, *, steps: int = 240) -> None:
    """METR-LA as CSV, with sensor coordinates and road distances."""
    table = traffic(steps)
    table.to_csv(folder / "METR-LA.csv")
    rows = "".join(f"{n},{name},34.{n},-118.{n}\n" for n, name in enumerate(table.columns, 10))
    (folder / "graph_sensor_locations.csv").write_text(
        f"index,sensor_id,latitude,longitude\n{rows}"
    )
    a, b, c = table.columns
    (folder / "distances_la_2012.csv").write_text(
        f"from,to,cost\n{a},{a},0\n{a},{b},100\n{b},{a},300\n{c},{c},0\n{a},{c},9000\n{a},1,5\n"
    )


def write_cube(path: Path, **sizes: int) -> None:
    """A cube as a NumPy archive."""
    cube = network(**sizes)
    np.savez(
        path,
        X=cube.to_numpy().astype("float32"),
        time=cube["time"].to_numpy().astype("datetime64[s]"),
        stations=cube["location"].to_numpy().astype(str),
        measurements=cube["measurement"].to_numpy().astype(str),
        lat=cube["lat"].to_numpy(),
        lon=cube["lon"].to_numpy(),
    )
